// What `--json` prints.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>

namespace tensorpager::cli {

/// Bytes that are no UTF-8, as of a path or of a program's last lines, are replaced.
inline void print_json(const nlohmann::ordered_json& object) {
  using Json = nlohmann::ordered_json;
  std::printf("%s\n", object.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

}  // namespace tensorpager::cli
