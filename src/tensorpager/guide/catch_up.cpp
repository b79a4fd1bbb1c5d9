#include "tensorpager/guide/catch_up.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "tensorpager/guide/candidates.h"

namespace tensorpager::guide {

using base::Bytes;
using trace::StorageId;

namespace {

/// Reports the order in which its ops made blocks, if that is still known.
void tell_last_window(follow::PlanCursor& cursor, const ClassProfile& one, const trace::Stream& stream) {
  const auto ops = one.agenda->replays().program_ops();
  if (one.end < stream.first + ops.size()) return;
  for (std::size_t i = 0; i < ops.size(); ++i)
    cursor.expect_made(ops[i], stream.ops[one.end - ops.size() - stream.first + i].made);
}

/// Nothing was dropped, so nothing is rebuilt.
void pass_replays(follow::PlanSwitch& follower, const base::OpSignature& next, std::vector<pager::Action>& actions) {
  while (const auto due = follower.due_replay(next)) {
    if (!follower.begin_op(due->signature, {}, actions)) return;
    follower.end_op(actions);
  }
}

}  // namespace

bool catch_up(follow::PlanSwitch& follower, const Profile& profile, const trace::Stream& stream,
              const std::unordered_map<std::uint64_t, pager::Block*>& blocks) {
  const auto newest = std::ranges::max_element(profile.classes, {}, &ClassProfile::end);
  if (stream.first > newest->end || stream.first + stream.ops.size() < newest->end) return false;
  std::unordered_map<std::uint64_t, std::unique_ptr<pager::Block>> gone;  // stand in for those that died since
  const auto block_of = [&](std::uint64_t number, Bytes size) -> pager::Block& {
    const auto found = blocks.find(number);
    if (found != blocks.end()) return *found->second;
    auto& block = gone[number];
    if (!block) {
      block = std::make_unique<pager::Block>();
      block->size = size;
    }
    return *block;
  };
  for (std::size_t c = 0; c < profile.classes.size(); ++c) {
    const ClassProfile& one = profile.classes[c];
    for (std::uint32_t i = 0; i < one.blocks.size(); ++i) {
      const StorageId id{i};
      // Of an older window only blocks that are still alive.
      const bool is_known = one.blocks[i] != 0 && (&one == &*newest || blocks.contains(one.blocks[i]));
      if (is_known) follower.cursor(c).bind(id, block_of(one.blocks[i], one.agenda->storage_size(id)));
    }
  }
  for (std::size_t c = 0; c < profile.classes.size(); ++c)
    tell_last_window(follower.cursor(c), profile.classes[c], stream);
  follower.start_after(static_cast<std::size_t>(newest - profile.classes.begin()));

  std::vector<pager::Action> actions;  // ignored: they are past
  for (std::size_t at = newest->end - stream.first; at < stream.ops.size(); ++at) {
    const trace::StreamOp& op = stream.ops[at];
    const base::OpSignature signature = signature_of(stream, op);
    pass_replays(follower, signature, actions);
    const bool is_expected = follower.begin_op(signature, {}, actions);
    pager::Block temporary;
    std::uint32_t made = 0;
    const auto make_temporary = [&] {
      follower.created(temporary);
      follower.died(temporary);
      ++made;
    };
    for (std::size_t k = 0; k < op.births.size(); ++k, ++made) {
      while (k < op.made.size() && made < op.made[k]) make_temporary();
      const trace::StreamStorage& born = stream.storages[op.births[k]];
      follower.created(block_of(born.block, born.bytes));
    }
    if (made == 0 && op.temporary > Bytes(0)) make_temporary();
    if (is_expected) follower.end_op(actions);
    for (const std::size_t i : op.deaths) follower.died(block_of(stream.storages[i].block, stream.storages[i].bytes));
  }
  for (const auto& [number, block] : gone) follower.died(*block);
  follower.begin_here();
  return true;
}

}  // namespace tensorpager::guide
