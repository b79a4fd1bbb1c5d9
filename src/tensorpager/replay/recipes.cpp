#include "tensorpager/replay/recipes.h"

#include <algorithm>
#include <iterator>

#include "tensorpager/intercept/frame.h"

namespace tensorpager::replay {

std::pair<Contents, Product> Recipes::contents_of(pager::Block& block) {
  const std::scoped_lock lock(mutex_);
  block.is_versioned.store(true, std::memory_order_relaxed);
  const auto known = known_.find(block.number);
  if (known == known_.end()) return {{block.number, 0}, {}};
  const Product& made_by = known->second.made_by;
  const bool is_too_deep = made_by && made_by.call->depth >= kDeepest;
  return {{block.number, known->second.version}, is_too_deep ? Product{} : made_by};
}

Contents Recipes::contents_of(std::uint64_t block) {
  const std::scoped_lock lock(mutex_);
  const auto known = known_.find(block);
  return {block, known == known_.end() ? 0 : known->second.version};
}

std::vector<std::uint64_t> Recipes::needing(std::uint64_t block) const {
  const auto needed = needed_by_.find(block);
  return needed == needed_by_.end() ? std::vector<std::uint64_t>() : needed->second;
}

std::vector<std::uint64_t> Recipes::dependents_of(std::uint64_t block) {
  const std::scoped_lock lock(mutex_);
  return needing(block);
}

std::vector<std::uint64_t> Recipes::begin_write(std::span<const std::uint64_t> blocks) {
  const std::scoped_lock lock(mutex_);
  std::vector<std::uint64_t> dependents;
  for (const std::uint64_t block : blocks) {
    ++known_[block].writers;
    std::ranges::copy(needing(block), std::back_inserter(dependents));
  }
  return dependents;
}

void Recipes::end_write(std::span<const std::uint64_t> blocks) {
  const std::scoped_lock lock(mutex_);
  for (const std::uint64_t block : blocks) {
    Known& known = known_[block];
    --known.writers;
    ++known.version;
    known.made_by = {};
  }
}

void Recipes::add(const std::shared_ptr<const Call>& call) {
  const std::scoped_lock lock(mutex_);
  for (std::uint32_t i = 0; i < call->outputs.size(); ++i) {
    const Contents& made = call->outputs[i].contents;
    Known& known = known_[made.block];
    if (known.version == made.version && !known.is_exposed) known.made_by = {call, i};
  }
}

bool Recipes::expose(pager::Block& block) {
  const std::scoped_lock lock(mutex_);
  block.is_versioned.store(true, std::memory_order_relaxed);
  Known& known = known_[block.number];
  known.is_exposed = true;
  known.made_by = {};
  return !needed_by_.contains(block.number);
}

void Recipes::died(std::uint64_t block) {
  {
    const std::scoped_lock lock(mutex_);
    known_.erase(block);
    if (const auto dropped = dropped_.find(block); dropped != dropped_.end()) end(dropped);
  }
  let_go();
}

void Recipes::note_compared(std::uint64_t row) {
  const std::scoped_lock lock(mutex_);
  compared_.insert(row);
}

bool Recipes::is_compared(const Call& call) {
  const std::scoped_lock lock(mutex_);
  return call.row == 0 || compared_.contains(call.row);
}

void Recipes::forget_compared() {
  const std::scoped_lock lock(mutex_);
  compared_.clear();
}

std::vector<c10::Storage> Recipes::to_compare(const Call& call) {
  const std::scoped_lock lock(mutex_);
  std::vector<c10::Storage> storages(call.outputs.size());
  if (compared_.contains(call.row)) return storages;
  for (std::size_t i = 0; i < storages.size(); ++i) {
    const Call::Output& output = call.outputs[i];
    if (!dropped_.contains(output.contents.block) && is_settled(output.contents))
      storages[i] = living(output.contents, output.storage);
  }
  return storages;
}

bool Recipes::hold(pager::Block& block) {
  const std::scoped_lock lock(mutex_);
  const auto known = known_.find(block.number);
  if (known == known_.end() || !known->second.made_by || known->second.writers > 0) return false;
  const std::uint64_t row = known->second.made_by.call->row;
  if (row != 0 && !compared_.contains(row)) return false;
  Dropped dropped{.size = block.size, .made_by = known->second.made_by, .needs = {}, .needed_blocks = {}};
  std::unordered_map<const Call*, bool> seen;
  const bool can_be_rebuilt = collect(*dropped.made_by.call, dropped, seen);
  const auto entry = dropped_.emplace(block.number, std::move(dropped)).first;
  for (const std::uint64_t needed : entry->second.needed_blocks) needed_by_[needed].push_back(block.number);
  if (!can_be_rebuilt) end(entry);
  return can_be_rebuilt;
}

/// Finds what must stay so that the call can be made again: what nobody can make. What can be made may go, as the
/// program frees it. Returns false if something is gone that nobody can make. `seen`: what was found for each call.
bool Recipes::collect(const Call& call, Dropped& dropped, std::unordered_map<const Call*, bool>& seen) {
  if (const auto before = seen.find(&call); before != seen.end()) return before->second;
  const auto finds = [&](const Call::Input& input) {
    if (!input.needs_contents() || (input.made_by && collect(*input.made_by.call, dropped, seen))) return true;
    c10::Storage storage = is_settled(input.contents) ? living(input.contents, input.storage) : c10::Storage();
    if (!storage) return false;
    dropped.needs.push_back(std::move(storage));
    dropped.needed_blocks.push_back(input.contents.block);
    return true;
  };
  const bool is_found =
      seen.size() < kMostCalls && call.op.can_be_replayed() && std::ranges::all_of(call.inputs, finds);
  return seen[&call] = is_found;
}

/// Whether a block that holds these contents will hold them until the next write that is announced.
bool Recipes::is_settled(const Contents& contents) const {
  const auto known = known_.find(contents.block);
  return known == known_.end() || (!known->second.is_exposed && known->second.writers == 0);
}

/// The storage of the contents if there still is one, which may be dropped; else null.
c10::Storage Recipes::living(const Contents& contents, const WeakStorage& weak) {
  const auto known = known_.find(contents.block);
  if ((known == known_.end() ? 0 : known->second.version) != contents.version) return {};
  auto storage = weak->lock();
  if (!storage) return {};
  const pager::Block* const block = intercept::g_target.finder().peek(*storage);
  if (block != nullptr && block->number == contents.block) return c10::Storage(std::move(storage));
  to_let_go_.emplace_back(std::move(storage));
  has_to_let_go_ = true;
  return {};
}

void Recipes::end(std::unordered_map<std::uint64_t, Dropped>::iterator dropped) {
  for (const std::uint64_t needed : dropped->second.needed_blocks) {
    const auto list = needed_by_.find(needed);
    if (list == needed_by_.end()) continue;
    std::erase(list->second, dropped->first);
    if (list->second.empty()) needed_by_.erase(list);
  }
  std::ranges::move(dropped->second.needs, std::back_inserter(to_let_go_));
  has_to_let_go_ = true;
  dropped_.erase(dropped);
}

void Recipes::release(std::uint64_t block) {
  const std::scoped_lock lock(mutex_);
  if (const auto dropped = dropped_.find(block); dropped != dropped_.end()) end(dropped);
}

bool Recipes::is_gone(const Contents& contents) {
  const std::scoped_lock lock(mutex_);
  const auto known = known_.find(contents.block);
  return dropped_.contains(contents.block) || known == known_.end() || known->second.version != contents.version;
}

Product Recipes::product_of_dropped(std::uint64_t block) {
  const std::scoped_lock lock(mutex_);
  const auto dropped = dropped_.find(block);
  return dropped == dropped_.end() ? Product() : dropped->second.made_by;
}

c10::Storage Recipes::storage_of(const Call::Input& input) {
  const std::scoped_lock lock(mutex_);
  return living(input.contents, input.storage);
}

std::vector<std::optional<DroppedBlock>> Recipes::dropped_outputs(const Call& call) {
  const std::scoped_lock lock(mutex_);
  std::vector<std::optional<DroppedBlock>> blocks(call.outputs.size());
  for (std::uint32_t i = 0; i < call.outputs.size(); ++i) {
    const auto dropped = dropped_.find(call.outputs[i].contents.block);
    const bool is_it =
        dropped != dropped_.end() && dropped->second.made_by.call.get() == &call && dropped->second.made_by.output == i;
    if (is_it) blocks[i] = {dropped->first, dropped->second.size};
  }
  return blocks;
}

void Recipes::let_go() {
  // What is freed may let go of more: that is freed here too, not deeper and deeper on the stack.
  constinit static thread_local bool t_is_letting_go = false;
  if (t_is_letting_go || !has_to_let_go_.load(std::memory_order_relaxed)) return;
  t_is_letting_go = true;
  for (;;) {
    std::vector<c10::Storage> freed;
    {
      const std::scoped_lock lock(mutex_);
      freed.swap(to_let_go_);
      has_to_let_go_ = false;
    }
    if (freed.empty()) break;
  }
  t_is_letting_go = false;
}

void Recipes::clear() {
  std::unordered_map<std::uint64_t, Known> known;
  const std::scoped_lock lock(mutex_);
  known.swap(known_);
}

}  // namespace tensorpager::replay
