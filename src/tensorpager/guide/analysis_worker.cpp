#include "tensorpager/guide/analysis_worker.h"

#include <system_error>
#include <utility>

#include "tensorpager/base/blocked_signals.h"

namespace tensorpager::guide {

AnalysisWorker::AnalysisWorker(std::function<void()> analyse, std::function<void()> finished)
    : analyse_(std::move(analyse)), finished_(std::move(finished)) {}

AnalysisWorker::~AnalysisWorker() {
  stop();
  if (thread_.joinable()) thread_.join();
}

bool AnalysisWorker::request() {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kIdle) return true;
  state_ = State::kRequested;
  if (!thread_.joinable()) return start();
  changed_.notify_all();
  return true;
}

void AnalysisWorker::stop() {
  const std::lock_guard lock(mutex_);
  state_ = State::kStopped;
  changed_.notify_all();
}

/// Returns false if the system has no thread.
bool AnalysisWorker::start() {
  const base::BlockedSignals blocked;
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error&) {
    state_ = State::kIdle;
  }
  return thread_.joinable();
}

void AnalysisWorker::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return state_ == State::kRequested || state_ == State::kStopped; });
    if (state_ == State::kStopped) return;
    state_ = State::kAnalysing;
    lock.unlock();
    analyse_();
    lock.lock();
    if (state_ == State::kStopped) return;
    state_ = State::kIdle;
    finished_();
  }
}

}  // namespace tensorpager::guide
