// What of this machine decides whether and how well paging works: one finding for each thing, with what to try. Reads
// limits and makes a spill file for real; changes nothing. Needs no torch and no Python.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tensorpager/base/bytes.h"

namespace tensorpager::cli {

enum class Verdict { kOk, kWarning, kNotPossible };

/// For people and as JSON: "ok", "warning", "not possible".
const char* to_string(Verdict verdict);

struct Finding {
  std::string name = {};  // one word
  Verdict verdict = Verdict::kOk;
  std::string found = {};   // what is so here, with its unit
  std::string advice = {};  // what to try; empty where all is well
};

/// `release` and `machine` as uname gives them.
Finding check_kernel(std::string_view release, std::string_view machine);
/// RAM, and the lowest limit of a control group. `root` is put before /proc and /sys, here and below.
Finding check_memory(const std::string& root);
/// Reserves the addresses that a session would.
Finding check_addresses();
Finding check_data_limit();
/// `in_use`: mappings of a Python with torch and a session; 0: not known.
Finding check_mappings(const std::string& root, std::uint64_t in_use);
Finding check_huge_pages(const std::string& root);
Finding check_locked_memory();
/// `where` as in --spill: a directory or `ram`.
Finding check_spill(const std::string& where);
/// `by_torch`: how many torch can use.
Finding check_gpus(const std::string& root, std::uint64_t by_torch);

}  // namespace tensorpager::cli
