// Texts that are nearly right: what readers of files are fuzzed with.
#pragma once

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

namespace tensorpager {

/// One to four edits: bytes changed, lines cut, doubled, swapped or joined with another text's, numbers made hostile.
inline std::string mutate(std::string text, const std::string& other, std::mt19937& random) {
  static constexpr std::array kHostile = {"0",
                                          "1",
                                          "-1",
                                          "18446744073709551615",
                                          "18446744073709551616",
                                          "4294967295",
                                          "4294967296",
                                          "1152921504606846975",
                                          "=",
                                          ",",
                                          "1e99",
                                          "0x10",
                                          "",
                                          " ",
                                          "\n",
                                          "end\n",
                                          "\0",
                                          "é",
                                          "a=b=c"};
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
  const auto line_at = [](const std::string& of, std::size_t at) {
    const std::size_t begin = at == 0 ? 0 : of.rfind('\n', at - 1) + 1;
    const std::size_t end = std::min(of.find('\n', at), of.size());
    return std::pair(begin, end - begin + (end < of.size() ? 1 : 0));
  };
  for (std::size_t edit = 0; edit < 1 + below(4) && !text.empty(); ++edit) {
    const std::size_t at = below(text.size());
    const auto [begin, length] = line_at(text, at);
    switch (below(8)) {
      case 0:
        text[at] = static_cast<char>(below(256));
        break;
      case 1:
        text.erase(begin, length);
        break;
      case 2:
        text.insert(begin, text.substr(begin, length));
        break;
      case 3:
        text.resize(at);
        break;
      case 4: {
        const std::string line = text.substr(begin, length);
        text.erase(begin, length);
        text.insert(below(text.size() + 1), line);
        break;
      }
      case 5: {
        const auto [from, count] = line_at(other, below(other.size()));
        text.insert(begin, other.substr(from, count));
        break;
      }
      case 6:
        text.insert(at, kHostile[below(kHostile.size())]);
        break;
      default: {
        const std::size_t digit = text.find_first_of("0123456789", at);
        if (digit == std::string::npos) break;
        const std::size_t rest = std::min(text.find_first_not_of("0123456789", digit), text.size());
        text.replace(digit, rest - digit, kHostile[below(9)]);
        break;
      }
    }
  }
  return text;
}

}  // namespace tensorpager
