// What the bytes of a training step are for, at the op where most are live. Inferred from a trace alone, by the ops
// that make, read and write a storage. Entries that the recording named (`parameter`, `gradient`, `optimizer`) are what
// their names say.
#pragma once

#include <cstdint>

#include "tensorpager/base/bytes.h"
#include "tensorpager/plan/liveness.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::fit {

/// Charged bytes. Their sum is the trace's need.
struct Composition {
  base::Bytes parameters;       // named so, or written by the optimizer and alive between steps
  base::Bytes gradients;        // named so, or made in the backward pass and read by the optimizer
  base::Bytes optimizer_state;  // named so, or alive between steps and used by the optimizer alone
  base::Bytes activations;      // made in the forward pass
  base::Bytes backward;         // made in the backward pass, but not a gradient of a parameter
  base::Bytes workspaces;       // alive between steps and used by no op: cuBLAS's among them
  base::Bytes others;           // alive between steps: buffers, frozen weights, inputs
  base::Bytes temporaries;  // made by the op's own kernel or by the optimizer, and all that is too small to be listed
  std::uint32_t op = 0;     // the op of the peak
};

Composition composition_at_peak(const trace::Trace& trace, const plan::Liveness& liveness);

}  // namespace tensorpager::fit
