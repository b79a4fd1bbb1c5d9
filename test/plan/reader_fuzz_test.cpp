// The readers of traces, plans and boundary tables under mutated files. Whatever the bytes, a reader either answers,
// and what it answers is written and read back as the same, or throws InvalidArgument with one line that begins with
// the file and the line. What it takes can be worked with: liveness, validator and planners must not fail on it either.
//
// The corpus in test/data/corpus holds small right files and those that once were wrong in an interesting way. A run is
// short by default; TENSORPAGER_TEST_FUZZ_SECONDS makes it longer (the test with the label slow: a minute).
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "../base/mutation.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/plan/plan_io.h"
#include "tensorpager/plan/validator.h"
#include "tensorpager/planning/classes.h"
#include "tensorpager/trace/trace_io.h"

namespace tensorpager::plan {

using namespace machine;
using namespace planning;
namespace {

using Corpus = std::vector<std::string>;

Corpus corpus_of(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(TENSORPAGER_TEST_DATA "/corpus/" + folder))
    paths.push_back(entry.path());
  std::ranges::sort(paths);
  Corpus corpus;
  for (const auto& path : paths) {
    std::ifstream in(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return corpus;
}

std::chrono::milliseconds fuzz_time() {
  const char* seconds = std::getenv("TENSORPAGER_TEST_FUZZ_SECONDS");
  return std::chrono::seconds(seconds == nullptr ? 0 : std::atoi(seconds));
}

void expect_one_line(const std::string& message) {
  int line = 0, length = 0;  // FILE:LINE: FIELD: WHAT
  EXPECT_EQ(std::sscanf(message.c_str(), "x:%d: %n", &line, &length), 1) << message;
  EXPECT_GT(line, 0) << message;
  const std::size_t field_end = message.find(": ", static_cast<std::size_t>(length));
  EXPECT_TRUE(length > 0 && field_end != std::string::npos && field_end + 2 < message.size()) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 400u) << message;
}

constexpr unsigned kFewest = 5000;  // texts

/// Calls `read(text)`, which gives how it is written, kFewest times and until the time is up; says how many texts were
/// taken.
template <typename Read>
int fuzz(const std::string& folder, Read read) {
  const Corpus corpus = corpus_of(folder);
  EXPECT_FALSE(corpus.empty());
  std::mt19937 random(1);
  int taken = 0;
  int refused = 0;
  const auto end = std::chrono::steady_clock::now() + fuzz_time();
  for (unsigned number = 0; number < kFewest || std::chrono::steady_clock::now() < end; ++number) {
    const std::string& seed = corpus[number % corpus.size()];
    const std::string text = number < corpus.size() ? seed : mutate(seed, corpus[random() % corpus.size()], random);
    std::string written;
    try {
      written = read(text);
      ++taken;
    } catch (const base::InvalidArgument& error) {
      expect_one_line(error.what());
      ++refused;
      if (testing::Test::HasFailure()) ADD_FAILURE() << "by number " << number << ":\n" << text;
      if (testing::Test::HasFailure()) return taken;
      continue;
    }
    EXPECT_EQ(read(written), written) << "by number " << number << ":\n" << text;
    if (testing::Test::HasFailure()) return taken;
  }
  EXPECT_GT(refused, 100);
  return taken;
}

TEST(ReaderFuzz, TracesAreTakenOrRefusedInOneLine) {
  const int taken = fuzz("trace", [](const std::string& text) {
    std::istringstream in(text);
    const trace::Trace trace = trace::read_trace(in, "x");
    EXPECT_NO_THROW(trace::check(trace));
    const Liveness liveness(trace);
    EXPECT_LE(liveness.floor(), liveness.need());
    if (trace.ops.size() <= 16 && !trace.ops.empty()) {
      const Machine machine = named_machine("h200-141g");
      const auto plan = make_pages_planner()->plan({.trace = trace, .machine = machine, .budget = liveness.floor()});
      EXPECT_TRUE(plan && validate(trace, plan.value()).empty()) << text;
    }
    return trace::write_trace(trace);
  });
  EXPECT_GT(taken, 15);
}

TEST(ReaderFuzz, PlansAreTakenOrRefusedInOneLine) {
  std::istringstream in(corpus_of("trace").back());
  const trace::Trace trace = trace::read_trace(in, "x");
  const int taken = fuzz("plan", [&](const std::string& text) {
    std::istringstream of_plan(text);
    const Plan plan = read_plan(of_plan, "x");
    (void)validate(trace, plan);
    return write_plan(plan);
  });
  EXPECT_GT(taken, 100);
}

TEST(ReaderFuzz, BoundaryTablesAreTakenOrRefusedInOneLine) {
  const int taken = fuzz("boundary", [](const std::string& text) {
    std::istringstream in(text);
    return write_boundary(read_boundary(in, "x"));
  });
  EXPECT_GT(taken, 100);
}

}  // namespace
}  // namespace tensorpager::plan
