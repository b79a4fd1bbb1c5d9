// Tensorpager in a C++ program: run a part of it under a byte budget, with the same results.
//
//   #include <tensorpager/tensorpager.h>
//   using namespace tensorpager::literals;
//
//   tensorpager::Session session({.budget = 512_MiB});
//   train();                                            // unchanged
//   std::cerr << session.report().summary() << '\n';
//
// Memory that libtorch allocates on the CPU from then on is charged and paged. Earlier allocations stay where they are,
// outside the budget. `tensorpager run -- ./train` does the same for a program without this header.
//
// An op that does not fit throws c10::OutOfMemoryError before it has run; the program may catch it and go on.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tensorpager/pager/statistics.h"

namespace at {
class TensorBase;
}

namespace tensorpager {

inline namespace literals {
constexpr std::uint64_t operator""_KiB(unsigned long long count) { return std::uint64_t{count} << 10; }
constexpr std::uint64_t operator""_MiB(unsigned long long count) { return std::uint64_t{count} << 20; }
constexpr std::uint64_t operator""_GiB(unsigned long long count) { return std::uint64_t{count} << 30; }
}  // namespace literals

/// Bytes, or a text as `tensorpager run` takes it: "8GiB", "500MB", "25%" (of RAM, or of the CUDA device), "unlimited".
class Size {
 public:
  Size(std::integral auto bytes) : text_(std::to_string(bytes)) {}
  Size(std::string text) : text_(std::move(text)) {}
  Size(const char* text) : text_(text) {}
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// The options of `tensorpager run`; docs/reference.md describes each. An option that is not set is read from its
/// TENSORPAGER_* variable.
struct Options {
  std::optional<Size> budget{};         // hard limit on tensor memory; default: unlimited, which only counts
  std::string device{};                 // whose memory: "cpu", the default, or "cuda", which needs a budget
  std::optional<Size> pinned{};         // limit on pinned memory for what a CUDA device pages out; default: RAM
  std::string binding{};                // "stable" or "rebinding" (one arena of exactly the budget, as on a GPU)
  std::string spill{};                  // where paged-out bytes go: a directory, or "ram"; default: TMPDIR, else /tmp
  std::string link{};                   // move bytes no faster than this: "2GB/s", or "2GB/s/4GB/s" for out and in
  std::string plan{};                   // a plan file to follow from the first op on; default: plans are made
  std::string plan_cache{};             // a directory that keeps plans for later runs; default: none
  std::optional<bool> on_demand{};      // make no plan
  std::optional<bool> recompute{};      // plans may drop tensors and run ops again; by default on a CUDA device
  std::optional<bool> plan_sync{};      // wait while a plan is made
  std::string stats{};                  // a file that gets the statistics when the session ends, as JSON; default: none
  std::optional<bool> quiet{};          // no line when a plan becomes active
  std::optional<std::uint64_t> fuzz{};  // evict at random at every op, with this seed: a test, slow
  std::optional<bool> verify_replay{};  // run each op that can be twice more, and compare: a test, slow
};

/// The figures of a session since it began; docs/formats.md describes each.
struct Report : pager::Statistics {
  std::string spill;                       // where paged-out bytes go, as text for messages
  std::uint64_t outside_budget_bytes = 0;  // foreign memory that ops used
  double wall_seconds = 0;

  /// The line that `tensorpager run` prints at exit.
  std::string summary() const;
};

/// Pages this process's tensor memory for as long as it lives. One session at a time in a process.
class Session {
 public:
  /// Throws std::invalid_argument for an invalid size, or if a session is active already (also one of `tensorpager
  /// run`), std::runtime_error if the spill directory or the machine cannot be used.
  explicit Session(const Options& options = {});
  /// Ends the session. If that fails, it prints the error to standard error, and the session continues.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Pages everything in and lifts the budget; tensors live on. A second call does nothing. Throws std::runtime_error
  /// if bytes cannot be read back or the statistics cannot be written.
  void end();

  /// The current figures; after end(), those at the end.
  Report report() const;

 private:
  std::string stats_;
  bool active_ = true;
};

/// Keeps a tensor's memory resident, writable and alive, for code that holds its address: a library's buffer, an
/// asynchronous read, a loop over a raw pointer. Reading and writing through a raw pointer works without a guard, which
/// then only avoids page faults; memory that is handed to a system call not listed in `docs/limits.md` needs one.
/// Without a session, or if the memory is not paged, it only keeps the tensor alive.
class [[nodiscard]] Guard {
 public:
  /// Throws c10::OutOfMemoryError if the block does not fit beside the blocks that cannot be evicted.
  explicit Guard(const at::TensorBase& tensor);
  ~Guard();
  Guard(Guard&&) noexcept;
  Guard& operator=(Guard&&) noexcept;

 private:
  struct Held;
  std::unique_ptr<Held> held_;
};

/// Makes a Guard, for `auto` and containers.
inline Guard pin(const at::TensorBase& tensor) { return Guard(tensor); }

}  // namespace tensorpager
