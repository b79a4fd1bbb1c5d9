// A thread that analyses on request, beside the program.
//
//   state       request()   the thread            stop()
//   kIdle       kRequested  waits                 kStopped
//   kRequested  kRequested  begins: kAnalysing    kStopped
//   kAnalysing  kAnalysing  ends: kIdle           kStopped
//   kStopped    kStopped    ends                  kStopped
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace tensorpager::guide {

class AnalysisWorker {
 public:
  /// Both are called on the thread. `finished` is called after each analysis with the worker's lock held, so that it
  /// is not called once `stop` has returned; it must not call the worker.
  AnalysisWorker(std::function<void()> analyse, std::function<void()> finished);
  /// Waits for the analysis in progress.
  ~AnalysisWorker();
  AnalysisWorker(const AnalysisWorker&) = delete;
  AnalysisWorker& operator=(const AnalysisWorker&) = delete;

  /// Requests an analysis; ignored while there is one. Returns false if the thread cannot be made.
  bool request();
  /// Accepts no more requests.
  void stop();

 private:
  enum class State : std::uint8_t { kIdle, kRequested, kAnalysing, kStopped };

  bool start();
  void work();

  const std::function<void()> analyse_, finished_;
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kIdle;
  std::thread thread_;  // made by the first request
};

}  // namespace tensorpager::guide
