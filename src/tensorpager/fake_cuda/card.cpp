#include "tensorpager/fake_cuda/card.h"

#include <cctype>
#include <charconv>
#include <limits>

#include "tensorpager/base/errors.h"
#include "tensorpager/fake_cuda/fields.h"

namespace tensorpager::fake_cuda {
namespace {

constexpr std::size_t kLeastMemory = std::size_t{1} << 20;
constexpr std::size_t kMostMemory = std::size_t{1} << 40;  // two mappings of this fit a process's addresses 8 times

[[noreturn]] void fail(std::string_view field, const std::string& wanted) {
  throw base::InvalidArgument("TENSORPAGER_CARD: " + std::string(field) + " is wrong; try " + wanted);
}

template <typename Number>
Number parse_number(std::string_view field, std::string_view value, Number least, Number most) {
  Number number{};
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < least || number > most)
    fail(field, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return number;
}

void set_field(Card& card, std::string_view field) {
  constexpr int kAnyCount = std::numeric_limits<int>::max();
  const std::size_t equals = field.find('=');
  if (equals == std::string_view::npos) fail(field, "FIELD=VALUE");
  const std::string_view key = field.substr(0, equals);
  const std::string_view value = field.substr(equals + 1);
  if (key == "name" && !value.empty()) {
    card.name = value;
  } else if (key == "devices") {
    card.devices = parse_number(field, value, 1, Card::kMostDevices);
  } else if (key == "multiprocessors") {
    card.multiprocessors = parse_number(field, value, 1, kAnyCount);
  } else if (key == "memory") {
    card.memory = parse_number(field, value, kLeastMemory, kMostMemory);
  } else if (key == "compute") {
    const std::size_t point = value.find('.');
    if (point == std::string_view::npos) fail(field, "compute=MAJOR.MINOR");
    card.compute_major = parse_number(field, value.substr(0, point), 1, 99);
    card.compute_minor = parse_number(field, value.substr(point + 1), 0, 9);
  } else {
    fail(field, "name, devices, compute, multiprocessors or memory");
  }
}

}  // namespace

std::string Card::display_name() const {
  std::string upper = name;
  for (char& letter : upper) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  return "NVIDIA " + upper + " (emulated)";
}

Card parse_card(std::string_view text) {
  Card card;
  for_each_field(text, [&](std::string_view field) { set_field(card, field); });
  return card;
}

}  // namespace tensorpager::fake_cuda
