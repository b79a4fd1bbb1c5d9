#include "tensorpager/fake_cuda/race_checker.h"

#include <algorithm>

namespace tensorpager::fake_cuda {

void RaceChecker::add_memory(const void* base, std::size_t bytes, const std::string& what) {
  const std::lock_guard lock(mutex_);
  memories_.emplace(base, Memory{what, Shadow(base, bytes, queues_)});
}

void RaceChecker::remove_memory(const void* base) {
  const std::lock_guard lock(mutex_);
  memories_.erase(base);
}

RaceChecker::Memory* RaceChecker::find(const void* address) {
  auto after = memories_.upper_bound(address);
  if (after == memories_.begin()) return nullptr;
  Memory& memory = std::prev(after)->second;
  return memory.shadow.holds(address) ? &memory : nullptr;
}

void RaceChecker::forget(const void* from, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (Memory* memory = find(from)) memory->shadow.forget(from, bytes);
}

void RaceChecker::check(int queue, const char* name, std::uint64_t position, const Clock& clock,
                        const std::vector<Range>& touched) {
  const std::lock_guard lock(mutex_);
  for (const Range& range : touched) {
    Memory* memory = range.bytes == 0 ? nullptr : find(range.at);
    if (!memory) continue;
    const std::size_t from = memory->shadow.offset_of(range.at);
    Conflict conflict;
    for (std::size_t i = from / Shadow::kGranule; i <= (from + range.bytes - 1) / Shadow::kGranule; ++i) {
      const Conflict found = touch(memory->shadow.row(i), queue, position, clock, range.written);
      if (found.queue >= 0) conflict = found;
    }
    if (conflict.queue < 0 || races_++ > 0) continue;
    first_race_ = std::string(name) + " on queue " + std::to_string(queue) + (range.written ? " writes " : " reads ") +
                  memory->what + " bytes " + std::to_string(from) + " to " + std::to_string(from + range.bytes) +
                  ", which queue " + std::to_string(conflict.queue) + " has " + conflict.did + " with no wait between";
  }
}

RaceChecker::Conflict RaceChecker::touch(Shadow::Row row, int queue, std::uint64_t position, const Clock& clock,
                                         bool written) const {
  Conflict conflict;
  const auto seen = [&](int other) { return clock[static_cast<std::size_t>(other)]; };
  const int writer = static_cast<int>(row.writer());
  if (writer != queue && row.write_position() > seen(writer)) conflict = {writer, "written"};
  if (!written) {
    row.read_position(queue) = static_cast<std::uint32_t>(position);
    return conflict;
  }
  for (int other = 0; other < queues_; ++other)
    if (other != queue && row.read_position(other) > seen(other)) conflict = {other, "read"};
  row.write_position() = static_cast<std::uint32_t>(position);
  row.writer() = static_cast<std::uint32_t>(queue);
  std::fill_n(&row.read_position(0), queues_, 0U);
  return conflict;
}

std::uint64_t RaceChecker::races() const {
  const std::lock_guard lock(mutex_);
  return races_;
}

std::string RaceChecker::first_race() const {
  const std::lock_guard lock(mutex_);
  return first_race_;
}

}  // namespace tensorpager::fake_cuda
