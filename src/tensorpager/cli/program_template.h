// A program one of whose arguments varies: `python train.py --batch {batch}`.
#pragma once

#include <cstdint>
#include <string>

#include "tensorpager/cli/command.h"

namespace tensorpager::cli {

class ProgramTemplate {
 public:
  /// Throws InvalidArgument if there is no `{name}`, or there are several names.
  explicit ProgramTemplate(const Program& program);

  const std::string& name() const { return name_; }
  /// With a number in the place of `{name}`.
  Program at(std::uint64_t size) const;

 private:
  const Program& program_;
  std::string name_;
};

}  // namespace tensorpager::cli
