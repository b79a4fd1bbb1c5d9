// Runs of a program at sizes of its argument: dry ones and timed ones, which give traces, and ones under plans. Says on
// standard error what is run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "tensorpager/base/bytes.h"
#include "tensorpager/cli/dry_program.h"
#include "tensorpager/cli/program_template.h"
#include "tensorpager/fit/plain.h"
#include "tensorpager/fit/scaling.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::cli {

class SizedRuns {
 public:
  enum class Way : std::uint8_t { kDry, kDryAndLonger, kTimed };  // longer: with what the program does after steps
  enum class Lists : std::uint8_t { kAll, kPaged };               // storages that a trace lists, and ops on them

  struct Options {
    std::string card;               // to emulate; empty: the program runs on the CPU
    base::Bytes budget;             // that dry runs divide calls on whole lists for
    bool verbose = false;           // shows what the program prints
    bool says_what_is_run = false;  // on standard error
  };

  /// Throws InvalidArgument if no argument varies.
  SizedRuns(const Program& program, Options options) : template_(program), options_(std::move(options)) {}

  /// Of the argument.
  const std::string& name() const { return template_.name(); }
  void say(const std::string& text) const;

  /// The trace of a step. Throws NotPossible if the program wrote none. `budget`: of timed runs.
  fit::SizedTrace traced(std::uint64_t size, Way way, Lists lists, base::Bytes budget = base::kUnlimited);
  /// At the size and twice that; dry runs at once, as nothing is timed.
  std::pair<fit::SizedTrace, fit::SizedTrace> traced_twice(std::uint64_t size, Way way, Lists lists);
  /// By torch's allocator for the card in these runs.
  const fit::Reserved& reserved() const { return reserved_; }

  /// Of the argument's size a second, under the budget and with plans; 0 if the program failed.
  double per_second_under_plans(base::Bytes budget, std::uint64_t size) const;
  fit::Gradients gradients(unsigned steps, std::uint64_t size) const;

 private:
  struct Traced {
    trace::Trace trace;
    std::optional<base::Bytes> reserved;
  };

  void say_run(std::uint64_t size, Way way) const;
  Traced trace_of(std::uint64_t size, Way way, Lists lists, base::Bytes budget) const;
  fit::SizedTrace take(std::uint64_t size, Traced found);
  std::filesystem::path log(const std::string& name) const;

  const ProgramTemplate template_;
  const Options options_;
  const Scratch scratch_;
  fit::Reserved reserved_;
};

}  // namespace tensorpager::cli
