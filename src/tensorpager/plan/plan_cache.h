// Plans that sessions made, kept in a directory for later ones: who meets the same classes of windows under the same
// budget need not plan them, and begins with what an earlier session made of the times that it saw.
//
// A file holds the plans of all classes that were planned together, one plan file after the other (docs/formats.md).
// Its name is a hash of the budget and of what their traces are but for times and identities. What it holds is
// validated like any plan from outside. A file is written whole and then named, so sessions may share a directory.
#pragma once

#include <string>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/plan/plan.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::plan {

class PlanCache {
 public:
  /// Made with the first file. A relative path is one from where the process is now.
  explicit PlanCache(const std::string& directory);

  using Traces = std::vector<const trace::Trace*>;
  /// One for each, if there are several under one boundary table; none where nothing is kept for them, or what is kept
  /// is not right for them. Without a curve.
  std::vector<Plan> find(const Traces& traces, base::Bytes budget) const;
  /// In the place of what is kept for these. Throws IoError where that cannot be written.
  void keep(const Traces& traces, base::Bytes budget, const std::vector<Plan>& plans) const;

 private:
  std::string path_for(const Traces& traces, base::Bytes budget) const;
  void forget_oldest() const;

  std::string directory_;
};

}  // namespace tensorpager::plan
