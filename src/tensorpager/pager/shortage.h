// Carries why an allocation failed from the allocator, which knows the bytes, to the op's frame, which knows the op and
// its shapes. The exception itself must be torch's own, whose text is fixed when it is thrown.
#pragma once

#include <memory>
#include <string>

namespace tensorpager::pager {

/// For this thread.
void note_shortage(std::string text);
/// The note since the last call; null if there is none.
std::unique_ptr<std::string> take_shortage();

}  // namespace tensorpager::pager
