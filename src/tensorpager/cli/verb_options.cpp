#include "tensorpager/cli/verb_options.h"

#include <cstdlib>
#include <filesystem>

#include "tensorpager/plan/given.h"

namespace tensorpager::cli {
namespace {

std::string absolute(const std::string& path) { return std::filesystem::absolute(path).string(); }

std::string absolute_paths(const std::string& paths) {
  std::string joined;
  for (const std::string& path : plan::split_paths(paths)) joined += (joined.empty() ? "" : ":") + absolute(path);
  return joined;
}

std::string exported_text(base::ValueKind kind, const std::string& text) {
  switch (kind) {
    case base::ValueKind::kText:
    case base::ValueKind::kSwitch:
      return text;
    case base::ValueKind::kPath:
      return absolute(text);
    case base::ValueKind::kPaths:
      return absolute_paths(text);
    case base::ValueKind::kDirectoryOrRam:
      return text == "ram" ? text : absolute(text);
  }
  return text;
}

}  // namespace

CLI::Option* add_option(CLI::App& verb, const base::Option& option, std::string& text) {
  std::string help = option.help;
  std::erase(help, '`');
  help += std::string(" [") + option.variable + "]";
  if (option.kind == base::ValueKind::kSwitch)
    return verb.add_flag_function(
        option.name, [&text](std::int64_t count) { text = count > 0 ? "1" : "0"; }, help);
  return verb.add_option(option.name, text, help)->type_name(option.value);
}

void add_options(CLI::App& verb, base::Taker taker, Settings& settings) {
  for (const base::Option& option : base::options())
    if (option.is_taken_by(taker)) add_option(verb, option, settings[option.variable]);
}

void export_settings(const Settings& settings) {
  for (const auto& [variable, text] : settings)
    if (!text.empty()) setenv(variable.c_str(), exported_text(base::option_of(variable).kind, text).c_str(), 1);
}

bool is_given(const Settings& settings, const char* variable) {
  const auto chosen = settings.find(variable);
  return (chosen != settings.end() && !chosen->second.empty()) || is_set(variable);
}

bool is_set(const char* variable) {
  const char* text = std::getenv(variable);
  return text != nullptr && *text != '\0';
}

}  // namespace tensorpager::cli
