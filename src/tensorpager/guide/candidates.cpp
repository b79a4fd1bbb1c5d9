#include "tensorpager/guide/candidates.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <unordered_map>

#include "tensorpager/guide/profile.h"
#include "tensorpager/trace/alike.h"

namespace tensorpager::guide {

using base::Bytes;

namespace {

constexpr std::size_t kMostClasses = 6;
/// Classes with a smaller share of the program are served on demand.
constexpr double kLeastShare = 0.02;

/// By storage of the trace: its block's number when the window ends; 0 for none.
std::vector<std::uint64_t> blocks_at_end(const trace::Stream& stream, trace::Span window) {
  std::vector<std::uint64_t> blocks;
  for (const std::size_t i : trace::window_storages(stream, window).at_end)
    blocks.push_back(i != trace::StreamStorage::kNever ? stream.storages[i].block : 0);
  return blocks;
}

/// The signature of an op holds what it is called with, not what ops within it touch.
std::vector<base::OpSignature> signatures_of(const trace::Stream& stream, trace::Span window) {
  std::vector<base::OpSignature> signatures;
  for (std::size_t at = window.begin; at < window.end; ++at) signatures.push_back(signature_of(stream, stream.ops[at]));
  return signatures;
}

bool is_in(const trace::Span& window, const trace::WindowClass& one) {
  return std::ranges::find(one.windows, window) != one.windows.end();
}

/// Sets each class's blocks to those when the newest window ends: blocks that an older window left may have been
/// renewed since by those of other classes, as gradients are.
void bring_up_to_date(std::vector<Candidate>& candidates, const std::vector<trace::WindowClass>& classes,
                      const trace::Stream& stream) {
  std::vector<trace::Span> windows;
  for (const trace::WindowClass& one : classes) windows.insert(windows.end(), one.windows.begin(), one.windows.end());
  std::ranges::sort(windows, {}, &trace::Span::begin);
  const std::uint64_t newest = std::ranges::max(candidates, {}, &Candidate::end).end;
  for (const trace::Span window : windows) {
    if (stream.first + window.end > newest) break;
    const auto is_before = [&](const Candidate& one) { return one.blocks_at <= stream.first + window.begin; };
    if (std::ranges::none_of(candidates, is_before)) continue;
    const trace::WindowStorages storages = trace::window_storages(stream, window);
    std::unordered_map<std::uint64_t, std::uint64_t> renewed;
    for (std::size_t i = 0; i < storages.at_begin.size(); ++i) {
      const std::size_t before = storages.at_begin[i], after = storages.at_end[i];
      if (before != trace::StreamStorage::kNever && after != trace::StreamStorage::kNever && before != after)
        renewed[stream.storages[before].block] = stream.storages[after].block;
    }
    for (Candidate& one : candidates) {
      if (!is_before(one)) continue;
      for (std::uint64_t& block : one.blocks)
        if (const auto found = renewed.find(block); found != renewed.end()) block = found->second;
      one.blocks_at = stream.first + window.end;
    }
  }
}

/// Gives a storage that is the same block in each class one identity.
void identify(std::vector<Candidate>& candidates) {
  std::optional<std::set<std::uint64_t>> everywhere;
  for (const Candidate& one : candidates) {
    std::set<std::uint64_t> here(one.blocks.begin(), one.blocks.end());
    if (everywhere) std::erase_if(here, [&](std::uint64_t number) { return !everywhere->contains(number); });
    everywhere = std::move(here);
  }
  for (Candidate& one : candidates) {
    for (std::size_t i = 0; i < one.blocks.size(); ++i) {
      trace::Storage& storage = one.trace.storages[i];
      if (storage.entry && one.blocks[i] != 0 && everywhere->contains(one.blocks[i])) storage.identity = one.blocks[i];
    }
  }
}

/// Sets all classes' slabs to the most: slabs are there in any window, and as large as they are now.
void level_slabs(std::vector<Candidate>& candidates, const trace::Stream& stream) {
  Bytes slab = stream.ops.back().slab;
  for (const Candidate& one : candidates) slab = std::max(slab, one.trace.slab);
  for (Candidate& one : candidates) one.trace.slab = slab;
}

}  // namespace

base::OpSignature signature_of(const trace::Stream& stream, const trace::StreamOp& op) {
  base::OpSignature signature{.name = base::name_hash(op.facts.name)};
  for (std::size_t i = 0; i < op.arguments; ++i) signature.add(stream.storages[op.touched[i].storage].bytes);
  return signature;
}

std::vector<Candidate> candidates_in(const std::vector<trace::WindowClass>& classes, const trace::Stream& stream) {
  std::vector<Candidate> candidates;
  const auto add = [&](const trace::WindowClass& one, bool is_similar) {
    const trace::Span last = one.windows.back();
    candidates.push_back({.trace = one.trace,
                          .signatures = signatures_of(stream, last),
                          .blocks = blocks_at_end(stream, last),
                          .blocks_at = stream.first + last.end,
                          .end = stream.first + last.end,
                          .share = static_cast<double>(one.ops()) / static_cast<double>(stream.ops.size()),
                          .is_similar = is_similar});
  };
  const auto least_ops = static_cast<std::size_t>(std::ceil(kLeastShare * static_cast<double>(stream.ops.size())));
  const auto is_large = [&](const trace::WindowClass& one) { return one.ops() >= least_ops; };
  const auto alike = trace::join_alike(classes, least_ops);
  for (const trace::WindowClass& one : alike)
    if (is_large(one)) add(one, true);
  for (const trace::WindowClass& one : classes) {
    const bool is_joined =
        std::ranges::any_of(alike, [&](const trace::WindowClass& group) { return is_in(one.windows.front(), group); });
    if (one.windows.size() > 1 && is_large(one) && !is_joined) add(one, false);
  }
  std::ranges::stable_sort(candidates, std::ranges::greater(), &Candidate::share);
  if (candidates.size() > kMostClasses) candidates.resize(kMostClasses);
  return candidates;
}

void add_known(std::vector<Candidate>& candidates, const Profile& known) {
  if (known.origin == Profile::Origin::kUser) return;
  const std::uint64_t newest = std::ranges::max(known.classes, {}, &ClassProfile::end).end;
  for (const ClassProfile& one : known.classes) {
    if (one.is_similar) continue;  // a newer one replaces it
    const auto is_same = [&](const Candidate& other) { return one.agenda->program_signatures() == other.signatures; };
    if (candidates.size() == kMostClasses || std::ranges::any_of(candidates, is_same)) continue;
    trace::Trace trace = *one.trace;
    for (trace::Storage& storage : trace.storages) storage.identity.reset();
    candidates.push_back({.trace = std::move(trace),
                          .signatures = one.agenda->program_signatures(),
                          .blocks = one.blocks,
                          .blocks_at = newest,
                          .end = one.end,
                          .share = 0});
  }
}

void relate(std::vector<Candidate>& candidates, const std::vector<trace::WindowClass>& classes,
            const trace::Stream& stream) {
  bring_up_to_date(candidates, classes, stream);
  identify(candidates);
  level_slabs(candidates, stream);
}

}  // namespace tensorpager::guide
