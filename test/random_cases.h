// How many random cases a test tries.
#pragma once

namespace tensorpager {

/// `sanitized` of them under a sanitizer, which makes them some ten times slower.
constexpr unsigned random_cases([[maybe_unused]] unsigned all, [[maybe_unused]] unsigned sanitized) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return sanitized;
#else
  return all;
#endif
}

}  // namespace tensorpager
