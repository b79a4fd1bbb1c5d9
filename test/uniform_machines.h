// Machines with one share of the peak for all ops, 60 % of the arithmetic and 80 % of the memory's rate. The rates of
// the machines with these names may change; the figures of plans that tests and docs/plans.md state are of these.
#pragma once

#include <string>

#include "tensorpager/machine/machine_io.h"

namespace tensorpager {

inline machine::Machine uniform_machine(const std::string& name) {
  return machine::find_machine(TENSORPAGER_TEST_DATA "/machines/" + name + ".machine");
}

}  // namespace tensorpager
