#include "tensorpager/trace/window_trace.h"

#include <algorithm>
#include <map>

namespace tensorpager::trace {
namespace {

constexpr std::size_t kNone = StreamStorage::kNever;

class Writer {
 public:
  Writer(const Stream& stream, Span window) : stream_(stream), window_(window), keys_(stream.storages.size(), kNone) {}

  std::optional<Trace> write() {
    collect_entry();
    if (!pair_leaving_with_staying()) return std::nullopt;
    Trace trace{.granule = stream_.granule, .slab = {}, .storages = {}, .ops = {}};
    for (std::size_t at = window_.begin; at < window_.end; ++at) {
      trace.slab = std::max(trace.slab, stream_.ops[at].slab);
      trace.ops.push_back(op_at(at));
    }
    number_untouched();
    trace.storages.resize(used_.size());
    for (std::size_t i = 0; i < used_.size(); ++i) {
      const Key& key = all_keys_[used_[i]];
      trace.storages[i] = {.bytes = key.bytes, .entry = key.entry, .name = {}};
    }
    return trace;
  }

  /// Valid after `write`.
  WindowStorages storages() const {
    WindowStorages found{.at_begin = std::vector<std::size_t>(used_.size(), kNone),
                         .at_end = std::vector<std::size_t>(used_.size(), kNone)};
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      if (keys_[i] == kNone) continue;
      const std::size_t number = all_keys_[keys_[i]].number;
      if (alive_at_begin(i)) found.at_begin[number] = i;
      if (!dies_inside(i)) found.at_end[number] = i;
    }
    return found;
  }

 private:
  /// A storage of the trace, before it has a number.
  struct Key {
    base::Bytes bytes;
    bool entry;
    std::size_t number = kNone;
  };
  /// An old storage that a new one continues, although both are alive for a while.
  struct Overlap {
    std::size_t stand_in;  // key of the new one until the old one dies
    std::size_t taken_over;
  };

  const StreamStorage& storage(std::size_t i) const { return stream_.storages[i]; }
  bool alive_at_begin(std::size_t i) const {
    const bool born = storage(i).born == StreamStorage::kBefore || storage(i).born < window_.begin;
    return born && (storage(i).died == kNone || storage(i).died >= window_.begin);
  }
  bool dies_inside(std::size_t i) const { return storage(i).died != kNone && storage(i).died < window_.end; }

  std::size_t add_key(base::Bytes bytes, bool entry) {
    all_keys_.push_back({bytes, entry});
    return all_keys_.size() - 1;
  }

  void collect_entry() {
    for (std::size_t i = 0; i < stream_.storages.size(); ++i) {
      if (!alive_at_begin(i)) continue;
      keys_[i] = add_key(storage(i).bytes, true);
      if (dies_inside(i)) leaving_[storage(i).maker].push_back(i);
    }
  }

  /// Pairs storages of one maker in the order of births: the oldest is continued by the oldest. False if some are left.
  bool pair_leaving_with_staying() {
    std::map<std::string_view, std::size_t> paired;
    for (std::size_t at = window_.begin; at < window_.end; ++at) {
      for (const std::size_t i : stream_.ops[at].births) {
        if (dies_inside(i)) {
          keys_[i] = add_key(storage(i).bytes, false);
          continue;
        }
        const auto found = leaving_.find(storage(i).maker);
        std::size_t& next = paired[storage(i).maker];
        if (found == leaving_.end() || next == found->second.size()) return false;
        continue_by(found->second[next++], i);
      }
    }
    return std::ranges::all_of(leaving_, [&](const auto& group) { return paired[group.first] == group.second.size(); });
  }

  void continue_by(std::size_t old, std::size_t renewed) {
    Key& key = all_keys_[keys_[old]];
    key.bytes = std::max(key.bytes, storage(renewed).bytes);
    if (storage(old).died < storage(renewed).born) {
      keys_[renewed] = keys_[old];
      return;
    }
    keys_[renewed] = add_key(key.bytes, false);
    overlaps_[old] = {keys_[renewed], keys_[old]};
    renewed_[old] = renewed;
  }

  StorageId number(std::size_t key) {
    if (all_keys_[key].number == kNone) {
      all_keys_[key].number = used_.size();
      used_.push_back(key);
    }
    return static_cast<StorageId>(all_keys_[key].number);
  }

  Op op_at(std::size_t at) {
    const StreamOp& seen = stream_.ops[at];
    Op op{.name = std::string(seen.facts.name),
          .temporary = seen.temporary,
          .time = seen.time,
          .flops = seen.facts.flops,
          .moved = seen.facts.moved,
          .op_class = base::class_of(seen.facts.name),
          .precision = seen.facts.precision,
          .purity = seen.facts.purity,
          .random = seen.facts.random,
          .list = seen.facts.list,
          .backward = seen.facts.backward,
          .optimizer = seen.optimizer_step != 0};
    for (const StreamTouch& touch : seen.touched)
      (touch.written ? op.writes : op.reads).push_back(number(keys_[touch.storage]));
    for (const std::size_t i : seen.births) {
      op.births.push_back(number(keys_[i]));
      op.moved += storage(i).bytes;
    }
    std::map<StorageId, StorageId> taken_over;  // by stand-in: the old storage
    for (const std::size_t i : seen.deaths) {
      const auto overlap = overlaps_.find(i);
      if (overlap == overlaps_.end()) {
        op.deaths.push_back(number(keys_[i]));
        continue;
      }
      const StorageId old = number(overlap->second.taken_over);
      op.deaths.push_back(number(overlap->second.stand_in));
      taken_over[op.deaths.back()] = old;
      keys_[renewed_[i]] = overlap->second.taken_over;
    }
    std::ranges::sort(op.deaths);
    for (const auto& [stand_in, old] : taken_over) {
      if (std::ranges::find(op.writes, old) != op.writes.end()) continue;
      op.writes.push_back(old);
      if (std::ranges::find(op.reads, old) == op.reads.end()) op.renews.push_back(old);
    }
    return op;
  }

  /// Numbers the storages that no op uses, by size, as nothing else distinguishes them.
  void number_untouched() {
    std::vector<std::size_t> rest;
    for (std::size_t key = 0; key < all_keys_.size(); ++key) {
      if (all_keys_[key].number == kNone) rest.push_back(key);
    }
    std::ranges::stable_sort(rest, {}, [&](std::size_t key) { return all_keys_[key].bytes; });
    for (const std::size_t key : rest) number(key);
  }

  const Stream& stream_;
  const Span window_;
  std::vector<std::size_t> keys_;  // by storage of the stream
  std::vector<Key> all_keys_;
  std::vector<std::size_t> used_;                                 // keys by number
  std::map<std::string_view, std::vector<std::size_t>> leaving_;  // by maker
  std::map<std::size_t, Overlap> overlaps_;                       // by the old storage
  std::map<std::size_t, std::size_t> renewed_;                    // by the old storage: the new one
};

}  // namespace

std::optional<Trace> window_trace(const Stream& stream, Span window) { return Writer(stream, window).write(); }

WindowStorages window_storages(const Stream& stream, Span window) {
  Writer writer(stream, window);
  return writer.write() ? writer.storages() : WindowStorages();
}

}  // namespace tensorpager::trace
