// Whether memory comes in huge pages if `madvise` asks for them.
#pragma once

namespace tensorpager::arena {

/// Returns false if an administrator has turned them off, or the kernel does not tell.
bool kernel_has_huge_pages();

}  // namespace tensorpager::arena
