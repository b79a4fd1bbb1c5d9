#include "fence.h"

#include <atomic>

namespace mini_pager {
namespace {

std::atomic<std::uint64_t> recorded{0};

}  // namespace

void Fence::record(c10::Stream stream) {
  auto event = std::make_shared<c10::Event>(stream.device_type());
  event->record(stream);
  marks_[stream.id()] = {std::move(event), ++recorded};
}

void Fence::merge(const Fence& other) {
  for (const auto& [stream, theirs] : other.marks_) {
    Mark& mine = marks_[stream];
    if (theirs.order > mine.order) mine = theirs;
  }
}

void Fence::block(c10::Stream stream) const {
  for (const auto& [recorded_on, mark] : marks_)
    if (recorded_on != stream.id()) mark.event->block(stream);
}

}  // namespace mini_pager
