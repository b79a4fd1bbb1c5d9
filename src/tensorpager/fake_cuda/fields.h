// Texts of fields that spaces separate, as the variables are that describe a card.
#pragma once

#include <cstddef>
#include <string_view>

namespace tensorpager::fake_cuda {

/// Calls `visit(field)` for each that is not empty.
template <typename Visit>
void for_each_field(std::string_view text, Visit&& visit) {
  while (!text.empty()) {
    const std::size_t space = text.find(' ');
    if (const std::string_view field = text.substr(0, space); !field.empty()) visit(field);
    text = space == std::string_view::npos ? std::string_view() : text.substr(space + 1);
  }
}

}  // namespace tensorpager::fake_cuda
