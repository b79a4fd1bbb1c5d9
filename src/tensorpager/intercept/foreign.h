// Foreign memory: shared memory, from_numpy, memory-mapped weights, from_blob, whatever was made before the session. It
// is left alone, and its bytes are reported.
#pragma once

#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <mutex>

namespace tensorpager::intercept {

/// Called for every foreign storage an op touches; cheap for those seen lately.
void note_foreign(c10::StorageImpl& storage);

/// Bytes of the foreign storages that ops touched: the most that were alive at one check.
std::uint64_t foreign_peak_bytes();
/// A session begins: from now on the storages of this device are noted.
void forget_foreign(c10::DeviceType device);

/// Held for a few instructions; see `locks_over_forks`.
std::mutex& foreign_lock();

}  // namespace tensorpager::intercept
