// Checks whether and how well paging works on this machine. Each finding says what to try. It reads limits and really
// makes a spill file, but changes nothing. Needs no torch and no Python.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tensorpager::cli {

enum class Verdict { kOk, kWarning, kNotPossible };

/// The text in messages and JSON: "ok", "warning", "not possible".
const char* to_string(Verdict verdict);

struct Finding {
  std::string name = {};  // one word
  Verdict verdict = Verdict::kOk;
  std::string found = {};   // the state found, with its unit
  std::string advice = {};  // what to try; empty if nothing is wrong
};

/// `release` and `machine` as uname gives them.
Finding check_kernel(std::string_view release, std::string_view machine);
/// Checks RAM and the lowest limit of a control group. `root` is put before /proc and /sys, here and below.
Finding check_memory(const std::string& root);
/// Reserves as much address space as a session.
Finding check_addresses();
Finding check_data_limit();
/// `in_use`: mappings of a Python process with torch and a session; 0 if unknown.
Finding check_mappings(const std::string& root, std::uint64_t in_use);
Finding check_huge_pages(const std::string& root);
Finding check_locked_memory();
/// `where`: a directory or `ram`, as in --spill.
Finding check_spill(const std::string& where);
/// `by_torch`: how many GPUs torch can use.
Finding check_gpus(const std::string& root, std::uint64_t by_torch);

}  // namespace tensorpager::cli
