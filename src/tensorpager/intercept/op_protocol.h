// The protocol of an op, the same for boxed and unboxed calls, parts of list ops and compiled kernels: the op is
// counted, its arguments are seen, a plan is notified of it, its working set is admitted, it is recorded, it runs, and
// its results are handed up.
#pragma once

#include "tensorpager/intercept/call_record.h"
#include "tensorpager/intercept/collectives.h"
#include "tensorpager/intercept/frame.h"

namespace tensorpager::intercept {

/// What follows once the arguments are seen. `begin()` records the op.
template <typename Call, typename Begin>
[[gnu::always_inline]] inline decltype(auto) run_seen(const Call& call, Frame& frame, Begin&& begin) {
  const auto run = [&]() -> decltype(auto) {
    try {
      frame.admit([&] { return call.info().name_hash; });
      begin();
      return call.run();
    } catch (const c10::Error& error) {
      const bool is_shortage =
          dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr || call.info().hides_shortages;
      // The op that the program called is named, not one that its kernel called.
      if (is_shortage && !frame.hands_results_up())
        if (const auto shortage = pager::take_shortage()) throw_out_of_memory(call.describe(), *shortage);
      throw;
    }
  };
  decltype(auto) results = run();
  if (frame.wants_results(call.is_factory()))
    call.for_each_result(results, [&](const auto& result) { frame.take_result(result); });
  return results;
}

/// The same visit of the arguments is for the frame and for the record. `call` is a copy, so that the hot path need not
/// have one in memory.
template <typename Call>
[[gnu::noinline]] decltype(auto) run_recorded(Call call, Frame& frame, base::EventSink& sink) {
  CallRecord record(call.info());
  call.for_each_argument([&](auto&& argument, pager::Access access) { record.add(argument, access, frame); });
  return run_seen(call, frame, [&] { record.begin(sink, frame, call.boxed_arguments()); });
}

/// Runs one op and returns its results. `Call` is a view of one call, with these functions:
///   room(), temporaries()           see PinSet
///   multiplies()                    whether it is a product of matrices
///   info()                          OpInfo; asked for only if the op is reported to a plan or recorded
///   for_each_argument(visit)        visit(argument, access): a tensor, an IValue or a storage
///   boxed_arguments()               for formulas of work; empty if the call is unboxed
///   run()                           calls the kernel; returns the results
///   for_each_result(results, visit) visit(result): a tensor or an IValue
///   is_factory()                    whether no argument can hold a tensor
///   describe()                      the call, for errors
template <typename Call>
[[gnu::always_inline]] inline decltype(auto) run_op(Call call) {
  release_finished_collectives();
  g_target.pager->boundaries().op_begins();
  if (call.multiplies() && g_target.before_products != nullptr) [[unlikely]]
    g_target.before_products();
  Frame frame(call.room(), call.temporaries());
  if (base::EventSink* const sink = g_target.sink(); sink != nullptr && frame.is_reported()) [[unlikely]]
    return run_recorded(call, frame, *sink);
  call.for_each_argument([&](auto&& argument, pager::Access access) { frame.see(argument, access); });
  return run_seen(call, frame, [] {});
}

}  // namespace tensorpager::intercept
