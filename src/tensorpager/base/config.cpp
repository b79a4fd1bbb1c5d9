#include "tensorpager/base/config.h"

#include "tensorpager/base/errors.h"
#include "tensorpager/base/options.h"

namespace tensorpager::base {

Config read_config(const Environment& environment) {
  Config config;
  for (const Option& option : options()) {
    if (option.read == nullptr) continue;
    const char* text = environment(option.variable);
    if (text == nullptr || *text == '\0') continue;
    try {
      option.read(config, text);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(std::string(option.variable) + ": " + error.what());
    }
  }
  return config;
}

std::string default_spill_directory(const Environment& environment) {
  const char* directory = environment("TMPDIR");
  return directory != nullptr && *directory != '\0' ? directory : "/tmp";
}

}  // namespace tensorpager::base
