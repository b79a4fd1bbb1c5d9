#include "tensorpager/base/options.h"

#include <algorithm>
#include <charconv>

#include "tensorpager/base/errors.h"

namespace tensorpager::base {
namespace {

std::uint64_t parse_count(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw InvalidArgument("'" + std::string(text) + "' is not a whole number");
  return value;
}

bool parse_switch(std::string_view text) {
  if (text == "1" || text == "true" || text == "yes" || text == "on") return true;
  if (text == "0" || text == "false" || text == "no" || text == "off" || text.empty()) return false;
  throw InvalidArgument("'" + std::string(text) + "' is neither 1 nor 0");
}

BindingKind parse_binding(std::string_view text) {
  if (text == "stable") return BindingKind::kStable;
  if (text == "rebinding") return BindingKind::kRebinding;
  throw InvalidArgument("'" + std::string(text) + "' is neither stable nor rebinding");
}

Device parse_device(std::string_view text) {
  if (text == "cpu") return Device::kHost;
  if (text == "cuda") return Device::kCuda;
  throw InvalidArgument("'" + std::string(text) + "' is neither cpu nor cuda");
}

/// `cuda=` or `cpu=` before the size says whose memory it is for. Must follow the device and the ranks.
void read_budget(Config& config, std::string_view text) {
  if (text.find(',') != std::string_view::npos)
    throw InvalidArgument("'" + std::string(text) + "' are two budgets, and a process has one: of cpu or of cuda");
  if (const std::size_t end = text.find('='); end != std::string_view::npos) {
    config.device = parse_device(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  const bool is_share_of_card = config.device == Device::kCuda && text.ends_with('%');
  const Bytes size = parse_size(text, Bytes(physical_memory().count() / config.local_ranks));
  if (is_share_of_card)
    config.share_of_card = text;
  else
    config.budget = size;
}

void read_dry(Config& config, std::string_view text) {
  config.dry = parse_switch(text);
  if (!config.dry) return;
  config.trace_smallest = Bytes(0);
  config.trace_class = 0;
}

std::uint64_t parse_ranks(std::string_view text) {
  const std::uint64_t ranks = parse_count(text);
  if (ranks == 0) throw InvalidArgument("'0' ranks on this machine");
  return ranks;
}

std::uint64_t parse_ordinal(std::string_view text) {
  const std::uint64_t ordinal = parse_count(text);
  if (ordinal == 0) throw InvalidArgument("'0' where counting begins with 1");
  return ordinal;
}

constexpr std::uint8_t operator|(Taker left, Taker right) {
  return static_cast<std::uint8_t>(static_cast<unsigned>(left) | static_cast<unsigned>(right));
}
constexpr std::uint8_t operator|(std::uint8_t left, Taker right) {
  return static_cast<std::uint8_t>(left | static_cast<unsigned>(right));
}

constexpr auto kRun = static_cast<std::uint8_t>(Taker::kRun);
constexpr auto kTrace = static_cast<std::uint8_t>(Taker::kTrace);
constexpr std::uint8_t kRunAndPrograms = Taker::kRun | Taker::kPython | Taker::kCpp;
constexpr std::uint8_t kAll = kRunAndPrograms | Taker::kTrace;

constexpr Option kOptions[] = {
    // Must precede the budget, which is divided by it. torchrun sets it in its ranks, but not in its own process.
    {.variable = "LOCAL_WORLD_SIZE",
     .value = "N",
     .help = "Number of ranks on this machine, as torchrun sets it: a budget in percent is divided by it",
     .read = [](Config& c, std::string_view t) { c.local_ranks = parse_ranks(t); }},
    {.name = "--device",
     .variable = "TENSORPAGER_DEVICE",
     .value = "DEVICE",
     .takers = kAll,
     .help =
         "Whose memory the budget is for, or is recorded: `cpu`, the default, or `cuda`. With `--emulate`, and for a "
         "trace, `cuda` needs no GPU",
     .read = [](Config& c, std::string_view t) { c.device = parse_device(t); }},
    {.name = "--budget",
     .variable = "TENSORPAGER_BUDGET",
     .value = "SIZE",
     .takers = kAll,
     .help = "Hard limit on the tensor memory of each process: bytes, `8GiB`, `500MB`, `25%` of RAM (or of the control "
             "group's limit, if lower; under torchrun divided by the ranks on this machine) or of the CUDA device's "
             "memory, or `unlimited` (the CPU only). `cuda=20GiB` is short for `--device cuda --budget 20GiB`",
     .read = &read_budget},
    {.name = "--pinned",
     .variable = "TENSORPAGER_PINNED",
     .value = "SIZE",
     .takers = kRunAndPrograms,
     .help = "The most pinned host memory for what a CUDA device pages out; the rest is copied to pageable memory, "
             "which is slower. Default: the machine's RAM",
     .read = [](Config& c, std::string_view t) { c.pinned = parse_size(t, physical_memory()); }},
    {.name = "--spill",
     .variable = "TENSORPAGER_SPILL",
     .value = "DIR",
     .kind = ValueKind::kDirectoryOrRam,
     .takers = kAll,
     .help = "Directory for paged-out bytes; default: `TMPDIR`, else `/tmp`. `ram` keeps them in memory, which saves "
             "none: for tests",
     .read = [](Config& c, std::string_view t) { c.spill = t; }},
    {.name = "--link",
     .variable = "TENSORPAGER_LINK",
     .value = "RATE",
     .takers = kAll,
     .help = "Move bytes no faster than this, to emulate another machine: `2GB/s`, or `2GB/s/4GB/s` for page-outs and "
             "page-ins",
     .read = [](Config& c, std::string_view t) { c.link = parse_link(t); }},
    {.name = "--binding",
     .variable = "TENSORPAGER_BINDING",
     .value = "KIND",
     .takers = kAll,
     .help = "`stable`, the default: a tensor keeps its address. `rebinding`: all tensors share one arena of exactly "
             "the budget and may return at another address, as on a GPU; it needs about 1.4 times the floor, and only "
             "ops and the wrapped accessors may read tensors",
     .read = [](Config& c, std::string_view t) { c.binding = parse_binding(t); }},
    {.name = "--plan",
     .variable = "TENSORPAGER_PLAN",
     .value = "FILE",
     .kind = ValueKind::kPaths,
     .takers = kRunAndPrograms,
     .help = "Follow this plan from the first op on; its trace lies beside it, `step.trace` for `step.plan`. Several "
             "plans with one boundary table are separated by colons. If no budget is given, the plan's applies",
     .read = [](Config& c, std::string_view t) { c.plan = t; }},
    {.name = "--plan-cache",
     .variable = "TENSORPAGER_PLAN_CACHE",
     .value = "DIR",
     .kind = ValueKind::kPath,
     .takers = kRunAndPrograms,
     .help = "Keep the plans that are made in this directory, at most 64 files, and reuse those that an earlier run "
             "made for the same steps and budget",
     .read = [](Config& c, std::string_view t) { c.plan_cache = t; }},
    {.name = "--on-demand",
     .variable = "TENSORPAGER_ON_DEMAND",
     .value = "1",
     .kind = ValueKind::kSwitch,
     .takers = kRunAndPrograms,
     .help = "Make no plan: tensors move only when an op uses them or when they are in the way",
     .read = [](Config& c, std::string_view t) { c.plans = !parse_switch(t); }},
    {.name = "--recompute",
     .variable = "TENSORPAGER_RECOMPUTE",
     .value = "1",
     .kind = ValueKind::kSwitch,
     .takers = kRunAndPrograms,
     .help = "Let plans also drop tensors and run the ops again that made them, where that is quicker than to move "
             "them: the default with `--device cuda`, where `--recompute=0` turns it off",
     .read = [](Config& c, std::string_view t) { c.recompute = parse_switch(t); }},
    {.variable = "TENSORPAGER_RECOMPUTE_ALL",
     .value = "1",
     .kind = ValueKind::kSwitch,
     .is_for_tests = true,
     .help = "Let plans drop all that replays can rebuild, whatever that costs: a test of Tensorpager, slow",
     .read = [](Config& c, std::string_view t) { c.recompute_all = parse_switch(t); }},
    {.name = "--plan-sync",
     .variable = "TENSORPAGER_PLAN_SYNC",
     .value = "1",
     .kind = ValueKind::kSwitch,
     .takers = kRunAndPrograms,
     .help = "Let the program wait while a plan is made, instead of making it in the background, so that runs are "
             "reproducible",
     .read = [](Config& c, std::string_view t) { c.plan_sync = parse_switch(t); }},
    {.name = "--emulate",
     .variable = "TENSORPAGER_EMULATE",
     .value = "CARD",
     .takers = kRun,
     .help = "Run a CUDA program without a GPU, on an emulated card with real numerics: `h100-80g`, `2xh100-80g` (up "
             "to 8), or a machine file with a card. Without `--budget` nothing else is done"},
    {.name = "--emulate-seed",
     .variable = "TENSORPAGER_EMULATE_SEED",
     .value = "ORDER",
     .takers = kRun,
     .help = "When the emulated card's kernels run: `now` (at once, the default), `late` (when the host waits for "
             "them), `threads` (a thread for each stream, with delays), or a number, the seed of an order that starves "
             "streams"},
    {.name = "--emulate-clock",
     .variable = "TENSORPAGER_EMULATE_CLOCK",
     .value = "CLOCK",
     .takers = kRun,
     .help = "What CUDA events of the emulated card measure: `cpu` (the time of the CPU's kernels that stand in, the "
             "default), or `card` (kernels and copies take what the machine file says; the host takes none)"},
    {.name = "--stats",
     .variable = "TENSORPAGER_STATS",
     .value = "FILE",
     .kind = ValueKind::kPath,
     .takers = Taker::kRun | Taker::kCpp,
     .help = "Write the statistics to this file at exit, as JSON",
     .read = [](Config& c, std::string_view t) { c.stats = t; }},
    {.name = "--quiet",
     .variable = "TENSORPAGER_QUIET",
     .value = "1",
     .kind = ValueKind::kSwitch,
     .takers = kRunAndPrograms,
     .help = "Print no line at exit or when a plan becomes active, and no warnings",
     .read = [](Config& c, std::string_view t) { c.quiet = parse_switch(t); }},
    {.variable = "TENSORPAGER_CURVE",
     .value = "1",
     .kind = ValueKind::kSwitch,
     .help = "Keep the curve of live and charged bytes over ops in the statistics",
     .read = [](Config& c, std::string_view t) { c.curve = parse_switch(t); }},
    {.name = "-o,--output",
     .variable = "TENSORPAGER_TRACE",
     .value = "FILE",
     .kind = ValueKind::kPath,
     .takers = kTrace,
     .help = "Trace file to write when the program ends; a rank that torchrun starts writes `FILE.rankN`",
     .read = [](Config& c, std::string_view t) { c.trace = t; }},
    {.variable = "TENSORPAGER_GRADIENTS",
     .value = "STEPS:FILE",
     .help = "Write what `fit --steps` asks of the gradients of so many real steps, and end the program"},
    {.name = "--dry",
     .variable = "TENSORPAGER_DRY",
     .value = "1",
     .kind = ValueKind::kSwitch,
     .takers = kTrace,
     .help = "Skip the kernels of large tensors, which then cost neither time nor memory, and end the program once a "
             "step has repeated: a model larger than this machine is traced in seconds",
     .read = &read_dry},
    // The next three must follow it, since it changes their defaults.
    {.variable = "TENSORPAGER_DRY_LONGER",
     .value = "SECONDS",
     .help = "Let a dry run go on for so long after a step has repeated, for what the program does later",
     .read = [](Config& c, std::string_view t) { c.dry_longer = std::chrono::seconds(parse_count(t)); }},
    {.name = "--class",
     .variable = "TENSORPAGER_TRACE_CLASS",
     .value = "N",
     .takers = kTrace,
     .help = "Which class of windows to record: 1, the default, makes up most of the run; `step` is the class of "
             "training steps (the default with `--dry`). The line at exit lists them",
     .read = [](Config& c, std::string_view t) { c.trace_class = t == "step" ? 0 : parse_ordinal(t); }},
    {.name = "--smallest",
     .variable = "TENSORPAGER_TRACE_SMALLEST",
     .value = "SIZE",
     .takers = kTrace,
     .help = "Record storages from this size on; smaller ones are counted together. Default: 16KiB, with `--dry` all",
     .read = [](Config& c, std::string_view t) { c.trace_smallest = parse_size(t, Bytes(0)); }},
    {.name = "--fuzz",
     .variable = "TENSORPAGER_FUZZ",
     .value = "SEED",
     .takers = kRunAndPrograms,
     .is_for_tests = true,
     .help = "Evict at random at every op, from this seed: a test of Tensorpager, slow",
     .read = [](Config& c, std::string_view t) { c.fuzz = parse_count(t); }},
    {.variable = "TENSORPAGER_FUZZ_EVICTIONS",
     .value = "N",
     .is_for_tests = true,
     .help = "Evictions that the fuzzer tries at each op; default: 2",
     .read = [](Config& c, std::string_view t) { c.fuzz_evictions = parse_count(t); }},
    {.variable = "TENSORPAGER_FUZZ_DROPS",
     .value = "N",
     .is_for_tests = true,
     .help = "Storages that the fuzzer tries to drop at each op, which are rebuilt by replays; default: 0",
     .read = [](Config& c, std::string_view t) { c.fuzz_drops = parse_count(t); }},
    {.name = "--verify-replay",
     .variable = "TENSORPAGER_VERIFY_REPLAY",
     .value = "1",
     .kind = ValueKind::kSwitch,
     .takers = kRunAndPrograms,
     .is_for_tests = true,
     .help =
         "Run each op that could be rebuilt by running it again twice more, on copies, and report any difference: a "
         "test of Tensorpager, slow",
     .read = [](Config& c, std::string_view t) { c.verify_replay = parse_switch(t); }},
    {.variable = "TENSORPAGER_VERIFY_REPLAY_OF",
     .value = "OP,OP",
     .is_for_tests = true,
     .help = "Ops that `--verify-replay` verifies whatever its rules say: `aten::native_dropout`",
     .read = [](Config& c, std::string_view t) { c.verify_replay_of = t; }},
    {.variable = "TENSORPAGER_WITNESS",
     .value = "N",
     .is_for_tests = true,
     .help = "Ask the kernel every N ops how much of our memory is resident; default: 0, never",
     .read = [](Config& c, std::string_view t) { c.witness_ops = parse_count(t); }},
    {.variable = "TENSORPAGER_EMULATE_DELAY_US",
     .value = "N",
     .is_for_tests = true,
     .help =
         "Longest delay of a kernel on the emulated card under `threads`, in microseconds; one kernel in sixteen is "
         "delayed up to ten times as long. Default: 100"},
    {.variable = "TENSORPAGER_EMULATE_RACES",
     .value = "0",
     .is_for_tests = true,
     .help = "Turn the race checker of the emulated card off"},
    {.variable = "TENSORPAGER_EMULATE_FAIL",
     .value = "CALL:N",
     .is_for_tests = true,
     .help = "Let the Nth call of this CUDA runtime function fail: `cudaMalloc:3`; several are separated by commas"},
    {.variable = "TENSORPAGER_DRY_FIRST_RUNS",
     .value = "0",
     .is_for_tests = true,
     .help = "Let a dry run skip also the first call of each op, which it otherwise makes if that is cheap"},
};

}  // namespace

std::string Option::keyword() const {
  const std::string_view names = name;
  const std::size_t dashes = names.rfind("--");
  std::string keyword(dashes == std::string_view::npos ? "" : names.substr(dashes + 2));
  std::replace(keyword.begin(), keyword.end(), '-', '_');
  return keyword;
}

std::span<const Option> options() { return kOptions; }

const Option& option_of(std::string_view variable) {
  const auto* const found = std::find_if(std::begin(kOptions), std::end(kOptions),
                                         [&](const Option& option) { return option.variable == variable; });
  TENSORPAGER_CHECK(found != std::end(kOptions));
  return *found;
}

Config read_config(const Environment& environment, Taker taker, const std::map<std::string, std::string>& given) {
  std::map<std::string_view, const char*> texts;  // by variable
  for (const auto& [keyword, text] : given) {
    const auto* const option = std::find_if(std::begin(kOptions), std::end(kOptions), [&](const Option& one) {
      return one.is_taken_by(taker) && one.keyword() == keyword;
    });
    if (option == std::end(kOptions)) throw InvalidArgument("'" + keyword + "' is no option");
    texts[option->variable] = text.c_str();
  }
  return read_config([&](const char* variable) {
    const auto text = texts.find(variable);
    return text != texts.end() ? text->second : environment(variable);
  });
}

}  // namespace tensorpager::base
