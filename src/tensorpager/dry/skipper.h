// Decides for each call whether its kernel runs. See dry.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "tensorpager/dry/call.h"
#include "tensorpager/dry/dry.h"
#include "tensorpager/dry/first_run.h"
#include "tensorpager/dry/stand_ins.h"

namespace tensorpager::dry {

class Skipper {
 public:
  explicit Skipper(const Options& options) : options_(options) {}

  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
  std::string report() const;

 private:
  /// Properties of the tensor arguments of a call.
  struct Look {
    bool unusual = false;         // meta, sparse, nested, of or to another device
    bool cuda = false;            // at least one
    bool large = false;           // a floating one, or bools that stand in for computed ones
    bool large_integers = false;  // one that is not floating
    bool masks = false;           // a bool or byte tensor among them
    std::size_t bytes = 0;
    std::int64_t most_elements = 0;
  };
  Look look_at(const Call& call) const;

  void skip_on_cpu(const Call& call, const Look& look);
  void skip_on_card(const Call& call, const Look& look);
  bool may_draw(const Look& look) const;
  void draw(const Call& call);
  void run(const Call& call, const Look& look);
  /// Works out what the call gives. Returns null if it had to be run for that: the stack holds its results then.
  const Outcome* learn(const Call& call, const Look& look, const Signature& signature);
  bool has_large_result(const Outcome& outcome) const;
  static void give_back_written(const Call& call);

  const Options options_;
  StandIns stand_ins_{options_};
  FirstRuns first_runs_{options_};
  std::atomic<std::uint64_t> drawn_{0};
  std::atomic<std::uint64_t> not_drawn_{0};  // the generator did not move
};

}  // namespace tensorpager::dry
