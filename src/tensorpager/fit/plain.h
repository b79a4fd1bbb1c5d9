// What plain torch takes of a device: the memory that its caching allocator reserves for a step, and the largest size
// of an argument for which that fits.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "tensorpager/base/bytes.h"
#include "tensorpager/fit/scaling.h"

namespace tensorpager::fit {

/// Reserved by the model of the caching allocator (planning/caching_model.h) after three steps. Of the storages that
/// live through the step nobody knows in which order the program made them: here by their numbers.
base::Bytes reserved_by_torch(const trace::Trace& trace);

/// Bytes that torch's own allocator reserved, by size of the argument.
using Reserved = std::map<std::uint64_t, base::Bytes>;

struct Plain {
  std::uint64_t size = 0;     // the largest that fits; 0 if not even 1, or if none was found that does
  base::Bytes reserved = {};  // there
  bool is_confirmed = false;  // by the allocator; else it is what the model says
};

/// Looks with the model, corrected by what the allocator reserved at the nearest known size, and asks the allocator for
/// what it finds, up to four times: `ask` runs the program dry at a size, and returns nullopt if that is not possible.
/// Returns the largest size that the allocator has room for once no larger one is expected to fit or all is asked.
/// `known` must not be empty.
Plain largest_plain(const Scaling& scaling, base::Bytes room, std::uint64_t most, Reserved known,
                    const std::function<std::optional<base::Bytes>(std::uint64_t size)>& ask);

}  // namespace tensorpager::fit
