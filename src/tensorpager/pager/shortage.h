// Carries why an allocation failed from the allocator, which knows the bytes, to the op's frame, which knows the op and
// its shapes. The exception itself must be torch's own, whose text is fixed when it is thrown.
#pragma once

#include <memory>
#include <string>

namespace tensorpager::pager {

namespace detail {
inline thread_local std::unique_ptr<std::string> t_shortage;
}

inline void note_shortage(std::string text) { detail::t_shortage = std::make_unique<std::string>(std::move(text)); }
/// The note since the last call; null if there is none.
inline std::unique_ptr<std::string> take_shortage() { return std::move(detail::t_shortage); }

}  // namespace tensorpager::pager
