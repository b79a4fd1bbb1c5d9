#include "tensorpager/plan/plan_cache.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "tensorpager/base/errors.h"
#include "tensorpager/base/op_signature.h"
#include "tensorpager/base/records.h"
#include "tensorpager/plan/boundary_table.h"
#include "tensorpager/plan/plan_io.h"
#include "tensorpager/plan/validator.h"
#include "tensorpager/trace/trace_io.h"

namespace tensorpager::plan {

using base::Bytes;
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kFirstWord = "tensorpager-plan ";  // the first word of each plan in a file
constexpr const char* kSuffix = ".plans";
constexpr std::size_t kMostFiles = 64;

/// The text of a trace without what varies from run to run.
std::string text_of(trace::Trace trace) {
  for (trace::Storage& storage : trace.storages) storage.identity.reset();
  for (trace::Op& op : trace.ops) op.time = {};
  return trace::write_trace(trace);
}

std::vector<Plan> read_plans(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  const std::string whole = text.str();
  std::vector<Plan> plans;
  for (std::size_t begin = 0; begin < whole.size();) {
    const std::size_t next = whole.find("\n" + std::string(kFirstWord), begin);
    const std::size_t end = next == std::string::npos ? whole.size() : next + 1;
    std::istringstream one(whole.substr(begin, end - begin));
    plans.push_back(read_plan(one, path));
    begin = end;
  }
  return plans;
}

bool are_right(const std::vector<Plan>& plans, const PlanCache::Traces& traces, Bytes budget) {
  if (plans.size() != traces.size()) return false;
  for (std::size_t i = 0; i < plans.size(); ++i)
    if (plans[i].budget > budget || !validate(*traces[i], plans[i]).empty()) return false;
  if (plans.size() == 1) return true;
  const BoundaryTable table = boundary_of(*traces[0], plans[0]);
  for (std::size_t i = 0; i < plans.size(); ++i)
    if (!plans[i].shared_boundary || !validate_boundary(*traces[i], plans[i], table).empty()) return false;
  return true;
}

}  // namespace

PlanCache::PlanCache(const std::string& directory) : directory_(fs::absolute(directory).string()) {}

std::string PlanCache::path_for(const Traces& traces, Bytes budget) const {
  std::string text = std::to_string(budget.count());
  for (const trace::Trace* trace : traces) text += "\n" + text_of(*trace);
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(base::name_hash(text)));
  return (fs::path(directory_) / (std::string(digits.data()) + kSuffix)).string();
}

std::vector<Plan> PlanCache::find(const Traces& traces, Bytes budget) const {
  const std::string path = path_for(traces, budget);
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  try {
    std::vector<Plan> plans = read_plans(path);
    if (!are_right(plans, traces, budget)) return {};
    fs::last_write_time(path, fs::file_time_type::clock::now(), error);  // on failure the file only seems older
    return plans;
  } catch (const base::InvalidArgument&) {
    return {};
  }
}

void PlanCache::keep(const Traces& traces, Bytes budget, const std::vector<Plan>& plans) const {
  std::string text;
  for (const Plan& plan : plans) text += write_plan(plan);
  const std::string path = path_for(traces, budget);
  const std::string unnamed = path + "." + std::to_string(getpid());
  const auto fail = [&](const char* call, const std::error_code& error) {
    throw base::IoError(call, "the plan cache in " + directory_, Bytes(text.size()), error.value(),
                        "choose another directory with --plan-cache");
  };
  std::error_code error;
  fs::create_directories(directory_, error);
  if (error) fail("mkdir", error);
  try {
    base::write_whole_file(unnamed, text);
    fs::rename(unnamed, path, error);
    if (error) fail("rename", error);
  } catch (...) {
    fs::remove(unnamed, error);  // it may be incomplete, as on a full disk
    throw;
  }
  forget_oldest();
}

/// Removes the least recently used files beyond kMostFiles. Another session may do the same at the same time.
void PlanCache::forget_oldest() const {
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory_, error))
    if (entry.path().extension() == kSuffix) files.emplace_back(entry.last_write_time(error), entry.path());
  if (files.size() <= kMostFiles) return;
  std::ranges::sort(files);
  for (std::size_t i = 0; i < files.size() - kMostFiles; ++i) fs::remove(files[i].second, error);
}

}  // namespace tensorpager::plan
