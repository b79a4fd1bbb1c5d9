// Keeps the plans of sessions in a directory for later ones: a session that meets the same classes of windows under the
// same budget need not plan them, and starts with plans that use the times an earlier session measured.
//
// A file holds the plans of all classes that were planned together, one plan file after the other (docs/formats.md).
// Its name is a hash of the budget and of their traces without times and identities. Its plans are validated like any
// plan from outside. A file is written whole and then renamed, so sessions may share a directory.
#pragma once

#include <string>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/plan/plan.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::plan {

class PlanCache {
 public:
  /// The directory is made with the first file. A relative path is resolved now.
  explicit PlanCache(const std::string& directory);

  using Traces = std::vector<const trace::Trace*>;
  /// Returns one plan for each trace, several only under one boundary table; empty if none are kept or the kept ones
  /// are not valid. The plans have no curve.
  std::vector<Plan> find(const Traces& traces, base::Bytes budget) const;
  /// Replaces what is kept for these traces and this budget. Throws IoError if the file cannot be written.
  void keep(const Traces& traces, base::Bytes budget, const std::vector<Plan>& plans) const;

 private:
  std::string path_for(const Traces& traces, base::Bytes budget) const;
  void forget_oldest() const;

  std::string directory_;
};

}  // namespace tensorpager::plan
