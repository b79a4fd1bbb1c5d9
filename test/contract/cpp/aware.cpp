// A program that uses the public header; one mode for each promise of it.
//
//   cpp_aware MODE [FOLDER]
#include <tensorpager/api/tensorpager.h>
#include <torch/torch.h>

#include <cstdio>
#include <iostream>
#include <map>
#include <stdexcept>

#include "../../programs/cpp/programs.h"

namespace {

using namespace tensorpager::literals;
using tensorpager::Guard;
using tensorpager::Options;
using tensorpager::Session;

constexpr int kWidth = 256;  // float32 squares of 256 KiB
constexpr std::uint64_t kSquare = 256_KiB;
std::string g_folder;

torch::Tensor square(double value) { return torch::full({kWidth, kWidth}, value); }

void say(const char* name, std::uint64_t value) {
  std::printf("%s %llu\n", name, static_cast<unsigned long long>(value));
}

/// Makes more than the budget, so that what came before is evicted where it can be.
std::vector<torch::Tensor> press(int squares) {
  std::vector<torch::Tensor> held;
  for (int i = 0; i < squares; ++i) held.push_back(square(i));
  return held;
}

void train() {
  Session session({.budget = 2_MiB, .spill = g_folder, .stats = g_folder + "/stats.json"});
  programs::raw_pointers(4, nullptr);
  const tensorpager::Report report = session.report();
  say("budget", report.budget_bytes);
  say("fits", report.peak_bytes <= report.budget_bytes && report.need_bytes > report.budget_bytes);
  say("page_outs", report.page_outs > 0);
  say("faults", report.faults > 0);
  std::printf("%s\n", report.summary().c_str());
}

/// The same program, which keeps raw addresses of its momenta, under guards.
void train_guarded() {
  Session session({.budget = "3MiB", .spill = g_folder});
  std::vector<Guard> guards;
  programs::raw_pointers(4, [&](const torch::Tensor& tensor) { guards.push_back(tensorpager::pin(tensor)); });
  say("fits", session.report().peak_bytes <= 3_MiB && session.report().need_bytes > 3_MiB);
  say("page_outs", session.report().page_outs > 0);
  say("exports", session.report().export_bytes >= 10 * 144_KiB);
}

void guard() {
  Session session({.budget = 2_MiB, .spill = g_folder});
  torch::Tensor tensor = square(3);
  const float* address = tensor.const_data_ptr<float>();
  {
    const auto before = press(12);
    Guard held(tensor);
    say("exported", session.report().export_bytes);
    const auto faults = session.report().faults;
    const auto more = press(12);
    std::printf("%g\n", address[77]);
    say("faults under the guard", session.report().faults - faults);

    Guard moved = std::move(held), other(more[0]);
    say("after a move", session.report().export_bytes);
    other = std::move(moved);
    say("after an assignment", session.report().export_bytes);
  }
  say("after the guard", session.report().export_bytes);
  const auto faults = session.report().faults;
  {
    const auto more = press(12);
    std::printf("%g\n", address[77]);
  }
  say("faults without", session.report().faults - faults);
  {
    Guard alive(square(5));  // the tensor is a temporary: the guard keeps it
    say("live under a guard", session.report().live_bytes >= 2 * kSquare);
  }
  std::vector<Guard> too_many;
  const auto squares = press(12);
  try {
    for (const torch::Tensor& one : squares) too_many.push_back(Guard(one));
  } catch (const c10::OutOfMemoryError& error) {
    std::printf("after %zu: %s\n", too_many.size(), error.what_without_backtrace());
  }
  too_many.clear();
  say("after too many", session.report().export_bytes);
}

void guard_of_other_tensors() {
  const torch::Tensor before = square(1);
  const Guard without_session(before);
  Session session({.budget = 4_MiB, .spill = g_folder});
  const Guard foreign(before), undefined{torch::Tensor()}, small(torch::ones(3)),
      meta(torch::empty({1 << 20}, torch::kMeta));
  say("exported", session.report().export_bytes);
  const torch::Tensor sparse = square(1).to_sparse();
  const Guard parts(sparse);
  say("parts", session.report().export_bytes >= 3 * kSquare);  // indices of 8 bytes, values of 4
  const auto more = press(16);
  say("right", sparse.sum().item<double>() == kWidth * kWidth);
}

void sessions() {
  torch::Tensor kept;
  {
    Session first({.budget = 1_MiB, .spill = g_folder});
    kept = square(7);
    press(12);
    try {
      Session second({.budget = 1_MiB});
    } catch (const std::invalid_argument& error) {
      std::printf("%s\n", error.what());
    }
    first.end();
    first.end();
    say("page_outs", first.report().page_outs > 0);
  }
  std::printf("%g\n", kept.sum().item<double>() / kWidth / kWidth);
  Session third({.budget = "unlimited", .spill = "ram"});
  press(12);
  say("page_outs", third.report().page_outs);
  std::printf("%s\n", third.report().spill.c_str());
}

void out_of_memory() {
  Session session({.budget = 2_MiB, .spill = g_folder});
  const torch::Tensor before = square(2);
  try {
    torch::ones({64, kWidth, kWidth});
  } catch (const c10::OutOfMemoryError& error) {
    std::printf("%s\n", error.what_without_backtrace());
  }
  programs::raw_pointers(4, nullptr);
  std::printf("%g\n", before.sum().item<double>() / kWidth / kWidth);
}

void errors() {
  const auto attempt = [](const char* what, const Options& options) {
    try {
      const Session session(options);
      std::printf("%s: accepted\n", what);
    } catch (const std::invalid_argument& error) {
      std::printf("%s: invalid_argument: %s\n", what, error.what());
    } catch (const std::runtime_error& error) {
      std::printf("%s: runtime_error: %s\n", what, error.what());
    }
  };
  attempt("size", {.budget = "much"});
  attempt("nothing", {.budget = 0});
  attempt("folder", {.budget = 1_GiB, .spill = g_folder + "/missing"});
  attempt("link", {.budget = 1_GiB, .link = "fast"});
  attempt("good", {.budget = 1 << 20, .spill = g_folder});
  attempt("all", {.budget = 1_GiB,
                  .binding = "stable",
                  .spill = g_folder,
                  .link = "2GB/s",
                  .plan_cache = g_folder,
                  .on_demand = false,
                  .plan_sync = true,
                  .quiet = true});
  attempt("share", {.budget = std::string("50%"), .spill = "ram"});
  Session session({.budget = 1_MiB, .spill = g_folder, .stats = g_folder + "/missing/stats.json"});
  try {
    session.end();
  } catch (const std::runtime_error& error) {
    std::printf("stats: runtime_error: %s\n", error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  torch::set_num_threads(1);
  if (argc > 2) g_folder = argv[2];
  const std::map<std::string, void (*)()> modes{
      {"train", train},
      {"train_guarded", train_guarded},
      {"guard", guard},
      {"sessions", sessions},
      {"guard_of_other_tensors", guard_of_other_tensors},
      {"errors", errors},
      {"out_of_memory", out_of_memory},
  };
  const auto chosen = modes.find(argc > 1 ? argv[1] : "");
  if (chosen == modes.end()) {
    std::cerr << "usage: cpp_aware MODE [FOLDER]\n";
    return 2;
  }
  chosen->second();
  return 0;
}
