#include "tensorpager/cli/emulate.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "tensorpager/base/bytes.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/cli/python_package.h"
#include "tensorpager/machine/machine_io.h"

namespace tensorpager::cli {
namespace {

constexpr unsigned kMostDevices = 8;
constexpr base::Bytes kAmple{std::uint64_t{1} << 40};

/// The parts of `2xh100-80g`: 2 and h100-80g.
struct Cards {
  unsigned number = 1;
  std::string machine;
};

Cards parse(const std::string& card) {
  const std::size_t digits = std::min(card.find_first_not_of("0123456789"), card.size());
  if (digits == 0 || digits + 1 >= card.size() || card[digits] != 'x') return {.number = 1, .machine = card};
  const std::string machine = card.substr(digits + 1), most = std::to_string(kMostDevices);
  const auto number = static_cast<unsigned>(card[0] - '0');
  if (digits > 1 || number == 0 || number > kMostDevices)
    throw base::InvalidArgument("'" + card + "': 1 to " + most + " cards can be emulated, not " +
                                card.substr(0, digits) + "; write " + most + "x" + machine + " or fewer");
  return {.number = number, .machine = machine};
}

/// See fake_cuda::parse_speeds. A link's rate is that of its largest transfers.
std::string speeds_of(const machine::Machine& machine) {
  std::ostringstream text;
  text << "launch_ns=" << machine.launch.count() << " byte_rate=" << machine.byte_rate;
  for (const auto& [of, rate] : machine.flop_rates.all())
    text << ' ' << base::class_name(of.first) << '.' << base::precision_name(of.second) << '=' << rate;
  text << " out_ns=" << machine.out.latency.count() << " out_rate=" << machine.out.steps.back().bytes_per_second
       << " in_ns=" << machine.in.latency.count() << " in_rate=" << machine.in.steps.back().bytes_per_second;
  return text.str();
}

}  // namespace

std::string machine_of_card(const std::string& card) { return parse(card).machine; }

void add_preload(const std::string& library) {
  if (library.find_first_of(" :") != std::string::npos)
    throw base::InvalidArgument("a path with a space or a colon cannot be preloaded: " + library +
                                "; install elsewhere");
  const char* inherited = std::getenv("LD_PRELOAD");
  const bool is_alone = inherited == nullptr || *inherited == '\0';
  setenv("LD_PRELOAD", is_alone ? library.c_str() : (inherited + (":" + library)).c_str(), 1);
}

void export_emulation(const std::string& card, CardMemory memory) {
  const Cards cards = parse(card);
  const machine::Machine machine = machine::find_machine(cards.machine);
  if (!machine.card)
    throw base::InvalidArgument(cards.machine +
                                ": has no record `card`, so it is not known what a program sees of it; add one such as "
                                "`card compute=9.0 multiprocessors=132 memory=85520809984`");
  const auto libraries = python_package() / "lib";
  const std::string runtime = libraries / "libtensorpager_fake_cuda.so";
  if (!std::filesystem::exists(runtime))
    throw base::InvalidArgument(
        "this build has no emulated card: it is built with a torch that has CUDA, as PyPI's wheels for Linux have, "
        "which need no GPU; pip "
        "install torch, and build again");
  if (machine.byte_rate > 0) setenv("TENSORPAGER_EMULATE_SPEEDS", speeds_of(machine).c_str(), 1);
  add_preload(runtime);
  add_preload(libraries / "fake_cuda" / "libcuda.so.1");
  setenv(
      "TENSORPAGER_CARD",
      ("name=" + std::filesystem::path(cards.machine).filename().string() + " devices=" + std::to_string(cards.number) +
       " compute=" + std::to_string(machine.card->major) + "." + std::to_string(machine.card->minor) +
       " multiprocessors=" + std::to_string(machine.card->multiprocessors) + " memory=" +
       std::to_string(
           (memory == CardMemory::kAmple ? std::max(kAmple, machine.card->memory) : machine.card->memory).count()))
          .c_str(),
      1);
}

}  // namespace tensorpager::cli
