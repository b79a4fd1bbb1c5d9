// Calls that fail although nothing is wrong: the nth of a name, once.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace tensorpager::fake_cuda {

class FailureInjection {
 public:
  /// The nth call (from 1) from now on fails.
  void fail(const std::string& call, std::uint64_t nth);
  /// "cudaMalloc:3,cudaMemcpyAsync:10". Throws InvalidArgument.
  void fail_all(std::string_view text);
  /// Counts a call. Costs nothing if no failure is asked for.
  bool must_fail(const char* call);

 private:
  std::atomic<bool> any_{false};
  std::mutex mutex_;
  std::map<std::string, std::uint64_t, std::less<>> left_;  // calls until the failure, by name
};

}  // namespace tensorpager::fake_cuda
