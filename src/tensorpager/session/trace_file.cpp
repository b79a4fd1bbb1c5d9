#include "tensorpager/session/trace_file.h"

#include "tensorpager/base/records.h"
#include "tensorpager/plan/liveness.h"
#include "tensorpager/trace/trace_io.h"
#include "tensorpager/trace/window_trace.h"
#include "tensorpager/trace/windows.h"

namespace tensorpager::session {
namespace {

constexpr std::size_t kMostTold = 8;  // classes in a message, to keep the line readable

std::string describe(const trace::WindowClass& one) {
  const plan::Liveness liveness(one.trace);
  return std::to_string(one.windows.size()) + (one.windows.size() == 1 ? " window of " : " windows of ") +
         std::to_string(one.trace.ops.size()) + " ops (need " + base::format_bytes(liveness.need()) + ", floor " +
         base::format_bytes(liveness.floor()) + ")";
}

trace::Trace with_names(const trace::WindowClass& one, const trace::Stream& stream, const BlockNames& names) {
  trace::Trace trace = one.trace;
  const trace::WindowStorages storages = trace::window_storages(stream, one.windows.back());
  for (std::size_t i = 0; i < trace.storages.size(); ++i) {
    for (const std::size_t seen : {storages.at_begin[i], storages.at_end[i]}) {
      if (seen == trace::StreamStorage::kNever) continue;
      const auto name = names.find(stream.storages[seen].block);
      if (name != names.end()) trace.storages[i].name = name->second;
    }
  }
  return trace;
}

}  // namespace

std::string write_trace_file(const trace::Stream& stream, const std::string& path, std::uint64_t number,
                             const BlockNames& names) {
  const std::vector<trace::WindowClass> classes = trace::classify_windows(stream);
  if (classes.empty())
    return path + ": nothing written: no window in " + std::to_string(stream.ops.size()) +
           " ops, as the storages alive are never again those alive before; try more steps, at least 4, and storages "
           "of 16 KiB and more";
  if (number == 0) number = trace::find_step(classes, stream).value_or(0) + 1;
  std::string text = path + ": ";
  if (number > classes.size())
    text += "nothing written: there is no class " + std::to_string(number) + "; ";
  else
    base::write_whole_file(path, trace::write_trace(with_names(classes[number - 1], stream, names)));
  text += std::to_string(classes.size()) + (classes.size() == 1 ? " class: " : " classes: ");
  for (std::size_t i = 0; i < std::min(classes.size(), kMostTold); ++i) {
    text += i == 0 ? "" : ", ";
    text += describe(classes[i]);
    if (i + 1 == number) text += " (written)";
  }
  if (classes.size() > kMostTold) text += ", " + std::to_string(classes.size() - kMostTold) + " more";
  return text;
}

}  // namespace tensorpager::session
