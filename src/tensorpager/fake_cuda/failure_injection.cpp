#include "tensorpager/fake_cuda/failure_injection.h"

#include <charconv>

#include "tensorpager/base/errors.h"

namespace tensorpager::fake_cuda {

void FailureInjection::fail(const std::string& call, std::uint64_t nth) {
  const std::lock_guard lock(mutex_);
  left_[call] = nth;
  any_ = true;
}

void FailureInjection::fail_all(std::string_view text) {
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view one = text.substr(0, comma);
    const std::size_t colon = one.rfind(':');
    std::uint64_t nth = 0;
    if (colon != std::string_view::npos) std::from_chars(one.data() + colon + 1, one.data() + one.size(), nth);
    if (nth == 0)
      throw base::InvalidArgument("TENSORPAGER_EMULATE_FAIL: " + std::string(one) + " is wrong; try cudaMalloc:3");
    fail(std::string(one.substr(0, colon)), nth);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
}

bool FailureInjection::must_fail(const char* call) {
  if (!any_.load(std::memory_order_relaxed)) return false;
  const std::lock_guard lock(mutex_);
  const auto found = left_.find(std::string_view(call));
  if (found == left_.end() || --found->second > 0) return false;
  left_.erase(found);
  any_ = !left_.empty();
  return true;
}

}  // namespace tensorpager::fake_cuda
