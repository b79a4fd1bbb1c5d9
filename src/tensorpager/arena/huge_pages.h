// Whether memory comes in huge pages where it is wished for (`madvise`).
#pragma once

namespace tensorpager::arena {

/// False where an administrator has turned them off, or the kernel does not tell.
bool kernel_has_huge_pages();

}  // namespace tensorpager::arena
