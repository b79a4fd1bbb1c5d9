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
#include "tensorpager/base/records.h"
#include "tensorpager/plan/boundary.h"
#include "tensorpager/plan/plan_io.h"
#include "tensorpager/plan/validator.h"

namespace tensorpager::plan {

using base::Bytes;
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kFirstWord = "tensorpager-plan ";  // of each plan in a file
constexpr const char* kSuffix = ".plans";
constexpr std::size_t kMostFiles = 64;
constexpr std::uint64_t kVersion = 1;  // of what is hashed

/// FNV-1a, 64 bits.
class Hash {
 public:
  void add(std::string_view text) {
    add(text.size());
    for (const char c : text) add_byte(static_cast<unsigned char>(c));
  }
  void add(std::uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) add_byte(number >> shift & 0xFF);
  }
  void add(Bytes bytes) { add(bytes.count()); }
  void add(const std::vector<trace::StorageId>& ids) {
    add(ids.size());
    for (const trace::StorageId id : ids) add(std::uint64_t{trace::index(id)});
  }
  std::string hex() const {
    std::array<char, 17> digits{};
    std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(state_));
    return digits.data();
  }

 private:
  void add_byte(std::uint64_t byte) { state_ = (state_ ^ byte) * 0x100000001B3; }

  std::uint64_t state_ = 0xCBF29CE484222325;
};

void add(const trace::Trace& trace, Hash& hash) {
  hash.add(trace.granule);
  hash.add(trace.slab);
  hash.add(trace.storages.size());
  for (const trace::Storage& storage : trace.storages) {
    hash.add(storage.bytes);
    hash.add(std::uint64_t{storage.entry});
  }
  hash.add(trace.ops.size());
  for (const trace::Op& op : trace.ops) {
    hash.add(std::string_view(op.name));
    for (const auto* ids : {&op.reads, &op.writes, &op.births, &op.deaths}) hash.add(*ids);
    hash.add(op.temporary);
  }
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
  const BoundaryTable table = boundary_of(*traces[0], plans[0]);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const bool is_right = plans[i].budget <= budget && validate(*traces[i], plans[i]).empty();
    if (!is_right) return false;
    const bool shares = plans[i].shared_boundary && validate_boundary(*traces[i], plans[i], table).empty();
    if (plans.size() > 1 && !shares) return false;
  }
  return true;
}

}  // namespace

std::string PlanCache::path_for(const Traces& traces, Bytes budget) const {
  Hash hash;
  hash.add(kVersion);
  hash.add(budget);
  hash.add(traces.size());
  for (const trace::Trace* trace : traces) add(*trace, hash);
  return (fs::path(directory_) / (hash.hex() + kSuffix)).string();
}

std::vector<Plan> PlanCache::find(const Traces& traces, Bytes budget) const {
  const std::string path = path_for(traces, budget);
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  try {
    std::vector<Plan> plans = read_plans(path);
    if (!are_right(plans, traces, budget)) return {};
    fs::last_write_time(path, fs::file_time_type::clock::now(), error);  // where it cannot be told it is older, no more
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
  base::write_whole_file(unnamed, text);
  fs::rename(unnamed, path, error);
  if (error) fail("rename", error);
  forget_oldest();
}

/// Beyond so many. Another session may do the same at the same time.
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
