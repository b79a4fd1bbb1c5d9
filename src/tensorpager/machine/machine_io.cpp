#include "tensorpager/machine/machine_io.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <fstream>

#include "tensorpager/base/records.h"

namespace tensorpager::machine {
namespace {

constexpr std::string_view kKind = "tensorpager-machine";
constexpr std::uint64_t kVersion = 1;
constexpr std::uint64_t kMaxLatency = 1'000'000'000'000;  // nanoseconds
constexpr std::uint64_t kMostMultiprocessors = 10'000;
constexpr base::Bytes kLeastCardMemory{std::uint64_t{1} << 20}, kMostCardMemory{std::uint64_t{1} << 40};

/// Steps are records of their own: `link out from=0 bytes_per_second=12e9 latency_ns=10000`.
void read_link(base::RecordReader& records, Machine& machine) {
  const bool out = records.flag("out");
  if (!out && !records.flag("in")) records.fail("direction", "is none of out, in");
  Link& link = out ? machine.out : machine.in;
  const base::Bytes from(records.number_or("from", base::kUnlimited.count(), 0));
  if (!link.steps.empty() && from <= link.steps.back().from)
    records.fail("from", "is not above that of the step before");
  if (link.steps.empty()) {
    link.latency = Nanoseconds(records.number_or("latency_ns", kMaxLatency, 0));
    link.handling = Nanoseconds(records.number_or("handling_ns", kMaxLatency, 0));
  }
  link.steps.push_back({.from = from, .bytes_per_second = records.positive("bytes_per_second")});
}

void read_rates(base::RecordReader& records, base::OpClass op_class, Machine& machine) {
  for (const auto& [precision, name] : base::kPrecisions)
    if (records.has(name)) machine.flop_rates.set(op_class, precision, records.positive(name));
}

/// `rates convolution float32=4.2e12`.
void read_class(base::RecordReader& records, Machine& machine) {
  const auto op_class = base::class_named(records.word("class"));
  if (!op_class) records.fail("class", "is none of product, convolution, attention, recurrent");
  read_rates(records, *op_class, machine);
}

void read_ops(base::RecordReader& records, Machine& machine) {
  read_rates(records, base::OpClass::kProduct, machine);
  machine.byte_rate = records.positive("bytes_per_second");
  machine.launch = Nanoseconds(records.number_or("launch_ns", kMaxLatency, 0));
}

/// `card compute=9.0 multiprocessors=132 memory=85520809984`.
void read_card(base::RecordReader& records, Machine& machine) {
  Card card;
  const std::string compute(records.text("compute"));
  char rest = 0;
  if (std::sscanf(compute.c_str(), "%2u.%1u%c", &card.major, &card.minor, &rest) != 2)
    records.fail("compute", "'" + compute.substr(0, 40) + "' is no compute capability; write one such as 9.0");
  if (card.major == 0) records.fail("compute", "'" + compute + "': there is no such card; write one such as 9.0");
  card.multiprocessors = static_cast<std::uint32_t>(records.number("multiprocessors", kMostMultiprocessors));
  if (card.multiprocessors == 0) records.fail("multiprocessors", "0: a card has one or more");
  card.memory = base::Bytes(records.number("memory", kMostCardMemory.count()));
  if (card.memory < kLeastCardMemory)
    records.fail("memory", std::to_string(card.memory.count()) + ": a card has 1 MiB or more");
  machine.card = card;
}

std::string real(double number) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  return {text.data(), end};
}

void append_rates(std::string& text, const base::FlopRates& rates, base::OpClass op_class) {
  for (const auto& [of, rate] : rates.all())
    if (of.first == op_class) text.append(" ").append(base::precision_name(of.second)).append("=").append(real(rate));
}

/// Names are words of the format, and of `TENSORPAGER_CARD`.
std::string name_of_file(const std::string& path) {
  std::string name = path;
  std::ranges::replace_if(
      name, [](unsigned char letter) { return std::isspace(letter) || letter == '='; }, '-');
  return name;
}

}  // namespace

Machine read_machine(std::istream& in, const std::string& path) {
  base::RecordReader records(in, path, kKind, kVersion);
  Machine machine;
  machine.name = name_of_file(path);
  while (records.next()) {
    if (records.type() == "name")
      machine.name = records.word("name");
    else if (records.type() == "memory")
      machine.memory = base::Bytes(records.word_number("memory", base::kUnlimited.count()));
    else if (records.type() == "measured")
      machine.time_scale = records.positive("scale");
    else if (records.type() == "ops")
      read_ops(records, machine);
    else if (records.type() == "rates")
      read_class(records, machine);
    else if (records.type() == "link")
      read_link(records, machine);
    else if (records.type() == "card")
      read_card(records, machine);
    else
      records.fail("record", "'" + std::string(records.type().substr(0, 40)) +
                                 "' is none of name, memory, measured, ops, rates, card, link, end");
    records.finish_record();
  }
  if (machine.out.steps.empty()) records.fail("link out", "is missing");
  if (machine.in.steps.empty()) records.fail("link in", "is missing");
  return machine;
}

std::string write_machine(const Machine& machine) {
  std::string text = base::header_line(kKind, kVersion);
  text += "name " + machine.name + "\n";
  if (machine.memory != base::kUnlimited) text += "memory " + std::to_string(machine.memory.count()) + "\n";
  text += "measured scale=" + real(machine.time_scale) + "\n";
  if (machine.byte_rate > 0) {
    text += "ops bytes_per_second=" + real(machine.byte_rate) + " launch_ns=" + std::to_string(machine.launch.count());
    append_rates(text, machine.flop_rates, base::OpClass::kProduct);
    text += '\n';
    for (const auto& [op_class, name] : base::kOpClasses) {
      std::string rates;
      if (op_class != base::OpClass::kProduct) append_rates(rates, machine.flop_rates, op_class);
      if (!rates.empty()) text.append("rates ").append(name).append(rates) += '\n';
    }
  }
  if (machine.card)
    text += "card compute=" + std::to_string(machine.card->major) + "." + std::to_string(machine.card->minor) +
            " multiprocessors=" + std::to_string(machine.card->multiprocessors) +
            " memory=" + std::to_string(machine.card->memory.count()) + "\n";
  for (const Link* link : {&machine.out, &machine.in}) {
    for (const Link::Step& step : link->steps) {
      text +=
          std::string("link ") + (link == &machine.out ? "out" : "in") + " from=" + std::to_string(step.from.count());
      if (&step == &link->steps.front()) {
        text += " latency_ns=" + std::to_string(link->latency.count());
        if (link->handling > Nanoseconds(0)) text += " handling_ns=" + std::to_string(link->handling.count());
      }
      text += " bytes_per_second=" + real(step.bytes_per_second) + "\n";
    }
  }
  return text + "end\n";
}

Machine find_machine(const std::string& name_or_path) {
  const auto names = machine_names();
  const bool is_path = name_or_path.find_first_of("./") != std::string::npos;
  if (!is_path || std::ranges::find(names, name_or_path) != names.end()) return named_machine(name_or_path);
  std::ifstream in;
  base::open_for_reading(in, name_or_path);
  return read_machine(in, name_or_path);
}

}  // namespace tensorpager::machine
