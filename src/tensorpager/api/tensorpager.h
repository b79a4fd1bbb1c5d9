// Tensorpager in a C++ program: run a part of it under a byte budget, with the same results.
//
//   #include <tensorpager/tensorpager.h>
//   using namespace tensorpager::literals;
//
//   tensorpager::Session session({.budget = 512_MiB});
//   train();                                            // unchanged
//   std::cerr << session.report().summary() << '\n';
//
// What libtorch allocates on the CPU from then on is charged and paged. What was made before stays where it is, outside
// the budget. `tensorpager run -- ./train` does the same for a program that does not know of this header.
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

/// Bytes, or a text as `tensorpager run` takes it: "8GiB", "500MB", "25%" (of RAM), "unlimited".
class Size {
 public:
  Size(std::integral auto bytes) : text_(std::to_string(bytes)) {}
  Size(std::string text) : text_(std::move(text)) {}
  Size(const char* text) : text_(text) {}
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// The options of `tensorpager run`; docs/reference.md says what each does. The TENSORPAGER_* variable applies to what
/// is not given.
struct Options {
  std::optional<Size> budget{};         // hard limit on tensor memory; default: unlimited, which only counts
  std::string binding{};                // "stable" or "rebinding" (one arena of exactly the budget, as on a GPU)
  std::string spill{};                  // where paged-out bytes go: a directory, or "ram"; default: TMPDIR, else /tmp
  std::string link{};                   // move bytes no faster than this: "2GB/s", or "2GB/s/4GB/s" for out and in
  std::string plan{};                   // a plan file to follow from the first op on; default: plans are made
  std::string plan_cache{};             // a directory that plans are kept in for later runs; default: none
  std::optional<bool> on_demand{};      // make no plan
  std::optional<bool> plan_sync{};      // wait while a plan is made
  std::string stats{};                  // a file that gets the statistics when the session ends, as JSON; default: none
  std::optional<bool> quiet{};          // no line where a plan becomes active
  std::optional<std::uint64_t> fuzz{};  // evict at random at every op, from this seed: a test, slow
};

/// What a session counted, from its beginning on. docs/formats.md says what each figure means.
struct Report : pager::Statistics {
  std::string spill;                       // where paged-out bytes go, for people
  std::uint64_t outside_budget_bytes = 0;  // foreign memory that ops used
  double wall_seconds = 0;

  /// The line that `tensorpager run` prints at exit.
  std::string summary() const;
};

/// Pages what this process allocates, for as long as it lives. One at a time in a process.
class Session {
 public:
  /// Throws std::invalid_argument for a size that is none or where a session is active already (by `tensorpager run`,
  /// too), std::runtime_error for a spill directory or a machine that cannot be used.
  explicit Session(const Options& options = {});
  /// Ends the session. Where that fails it says so on standard error, and the session goes on.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Pages everything in and lifts the budget; tensors live on. Does nothing the second time. Throws
  /// std::runtime_error if bytes cannot be read back or the statistics not be written.
  void end();

  /// The figures now; after end(), as they were then.
  Report report() const;

 private:
  std::string stats_;
  bool active_ = true;
};

/// Keeps a tensor's memory resident, writable and alive, for code that holds its address: a library's buffer, an
/// asynchronous read, a loop over a raw pointer. Reading and writing through a raw pointer works without; a guard saves
/// the page faults, and memory handed to a system call that `docs/limits.md` does not list needs one. Without a
/// session, and for memory that is not paged, it only keeps the tensor alive.
class [[nodiscard]] Guard {
 public:
  /// Throws c10::OutOfMemoryError where the block does not fit beside what cannot be evicted.
  explicit Guard(const at::TensorBase& tensor);
  ~Guard();
  Guard(Guard&&) noexcept;
  Guard& operator=(Guard&&) noexcept;

 private:
  struct Held;
  std::unique_ptr<Held> held_;
};

/// Guard(tensor), for `auto` and containers.
inline Guard pin(const at::TensorBase& tensor) { return Guard(tensor); }

}  // namespace tensorpager
