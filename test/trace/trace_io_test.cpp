#include "tensorpager/trace/trace_io.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "tensorpager/base/errors.h"

namespace tensorpager::trace {
namespace {

using namespace base;

constexpr const char* kByHand = R"(tensorpager-trace 1
granule 512
storage 0 bytes=4096 entry identity=7 name=weight
storage 1 bytes=1000
op mm reads=0 births=1 ns=1500 temporary=64 flops=8192 moved=12288 precision=bfloat16
op add_ reads=1 writes=0 deaths=1 renews=0 random list backward
end
)";

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Trace parse(const std::string& text) {
  std::istringstream in(text);
  return read_trace(in, "by_hand.trace");
}

std::string error_of(const std::string& text) {
  try {
    parse(text);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return {};
}

/// kByHand with `from` replaced by `to`.
std::string edited(const std::string& from, const std::string& to) {
  std::string text = kByHand;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(TraceIo, KeepsWhatIsChargedForSmallStorages) {
  const Trace trace = parse(edited("granule 512\n", "granule 512\nslab 65536\n"));
  EXPECT_EQ(trace.slab, 64_KiB);
  EXPECT_EQ(parse(write_trace(trace)).slab, 64_KiB);
  EXPECT_EQ(error_of(edited("op mm", "slab 65536\nop mm")), "by_hand.trace:5: slab: must come before the storages");
}

TEST(TraceIo, ReadsWhatAPersonWrites) {
  const Trace trace = parse(kByHand);
  EXPECT_EQ(trace.granule, 512_B);
  ASSERT_EQ(trace.storages.size(), 2u);
  EXPECT_TRUE(trace.storages[0].entry);
  EXPECT_EQ(trace.storages[0].name, "weight");
  EXPECT_EQ(trace.storages[0].identity, 7u);
  EXPECT_FALSE(trace.storages[1].identity);
  EXPECT_EQ(trace.storages[1].bytes, 1000_B);
  ASSERT_EQ(trace.ops.size(), 2u);
  EXPECT_EQ(trace.ops[0].name, "mm");
  EXPECT_EQ(trace.ops[0].time.count(), 1500);
  EXPECT_EQ(trace.ops[0].temporary, 64_B);
  EXPECT_EQ(trace.ops[0].precision, Precision::kBfloat16);
  EXPECT_EQ(trace.ops[0].births, std::vector{static_cast<StorageId>(1)});
  EXPECT_EQ(trace.ops[1].writes, std::vector{static_cast<StorageId>(0)});
  EXPECT_TRUE(trace.ops[1].random && trace.ops[1].list && trace.ops[1].backward);
}

TEST(TraceIo, WritesWhatItReads) {
  EXPECT_EQ(write_trace(parse(write_trace(parse(kByHand)))), write_trace(parse(kByHand)));
  for (const char* name : {"resnet50", "unet", "gpt2"}) {
    const std::string path = std::string(TENSORPAGER_TEST_DATA "/") + name + ".trace";
    EXPECT_EQ(write_trace(read_trace_file(path)), contents(path)) << name;
  }
}

TEST(TraceIo, NamesFileLineAndField) {
  const std::string at = "by_hand.trace:";
  EXPECT_EQ(error_of(kByHand), "");
  EXPECT_EQ(error_of(edited("granule 512", "granule 500")), at + "2: granule: is not a power of two");
  EXPECT_EQ(error_of(edited("storage 1", "storage 5")), at + "4: storage: number 5 where 1 comes next");
  EXPECT_EQ(error_of(edited("bytes=1000", "bytes=1000 identity=4")), at + "4: identity: is for a storage with entry");
  EXPECT_EQ(error_of(edited("storage 1 bytes=1000", "storage 1 bytes=1000 entry identity=7")),
            at + "4: identity: 7 is given twice");
  EXPECT_EQ(error_of(edited("bytes=1000", "bytes=1e3")), at + "4: bytes: '1e3' is not a whole number");
  EXPECT_EQ(error_of(edited("bytes=1000", "bytes=1125899906842624")),
            at + "4: bytes: '1125899906842624' is not below 1125899906842624");
  EXPECT_EQ(error_of(edited("births=1", "births=9")), at + "5: births: '9' is not below 2");
  EXPECT_EQ(error_of(edited("op mm", "op")), at + "5: name: is missing");
  EXPECT_EQ(error_of(edited("op mm", "op mm pure scratch")),
            at + "5: scratch: the op has another of pure, scratch and fills already");
  EXPECT_EQ(error_of(edited("bfloat16", "int4")),
            at + "5: precision: is none of float32, tf32, bfloat16, float16, float64");
  EXPECT_EQ(error_of(edited("random", "rnd")), at + "6: 'rnd': is unknown here, or given twice");
  EXPECT_EQ(error_of(edited("reads=1", "reads=0,0")), at + "6: reads: storage 0 is there twice");
  EXPECT_EQ(error_of(edited("births=1", "births=1 renews=0")), at + "5: renews: storage 0 is not among its writes");
  EXPECT_EQ(error_of(edited(" deaths=1 renews=0", " renews=0")),
            at + "7: end: storage 1 is alive at the window's end but not at its entry");
  EXPECT_EQ(error_of(edited("end\n", "storage 2 bytes=4\nend\n")),
            at + "7: storage: all storages come before the first op");
  EXPECT_EQ(error_of(edited("end\n", "")), at + "7: end: the file ends without the record `end`: it is truncated");
  EXPECT_EQ(error_of("tensorpager-trace 1\nend\n"), at + "2: end: there is no op");
  EXPECT_EQ(error_of(edited("op mm", "opp mm")), at + "5: record: 'opp' is none of granule, slab, storage, op, end");
}

// What is wrong must be found before memory is taken for it: ids are checked against the storages declared so far.
TEST(TraceIo, RefusesHugeNumbersAtOnce) {
  EXPECT_NE(error_of(edited("reads=0 ", "reads=4294967295 ")), "");
  EXPECT_NE(error_of(edited("storage 0", "storage 4000000000")), "");
  EXPECT_NE(error_of(edited("ns=1500", "ns=99999999999999999")), "");
  std::string many = "tensorpager-trace 1\n";
  for (int i = 0; i < 2000; ++i) many += "storage " + std::to_string(i) + " bytes=1125899906842623 entry\n";
  EXPECT_EQ(error_of(many + "op nothing\nend\n"), "by_hand.trace:1026: bytes: the storages' sum is above 2^60");
}

// Changed bytes, cuts, and repeated or dropped pieces: each gives a trace that keeps the rules, or one line that names
// the file.
TEST(TraceIo, AnswersBrokenFilesWithOneLine) {
  const std::string whole = contents(TENSORPAGER_TEST_DATA "/unet.trace");
  const std::string samples[] = {kByHand, whole};
  int refused = 0;
  int taken = 0;
  for (unsigned seed = 1; seed <= 4000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::string text = samples[seed % 20 == 0 ? 1 : 0];
    for (std::uint_fast32_t change = 0; change < 3 && !text.empty(); change += 1 + random() % 3) {
      const std::size_t at = random() % text.size();
      const std::size_t length = std::min<std::size_t>(1 + random() % 40, text.size() - at);
      switch (random() % 5) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text[at] = static_cast<char>('0' + random() % 10);
          break;
        case 2:
          text.erase(at, length);
          break;
        case 3:
          text.insert(random() % text.size(), text.substr(at, length));
          break;
        default:
          text.resize(at + 1);
      }
    }
    try {
      check(parse(text));
      ++taken;
    } catch (const InvalidArgument& error) {
      const std::string line = error.what();
      ASSERT_TRUE(line.starts_with("by_hand.trace:")) << line;
      ASSERT_EQ(line.find('\n'), std::string::npos) << line;
      ASSERT_LT(line.size(), 300u);
      ++refused;
    }
  }
  EXPECT_GT(refused, 2000);
  EXPECT_GT(taken, 20);
}

}  // namespace
}  // namespace tensorpager::trace
