// A value or an error, for failures that are expected outcomes and not mistakes.
#pragma once

#include <utility>
#include <variant>

#include "tensorpager/base/errors.h"

namespace tensorpager::base {

template <typename T, typename E>
class [[nodiscard]] Result {
 public:
  Result(T value) : outcome_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Result(E error) : outcome_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  explicit operator bool() const { return outcome_.index() == 0; }

  /// The value. Asking for it when there is none is a bug and fails a check.
  const T& value() const {
    TENSORPAGER_CHECK(outcome_.index() == 0);
    return *std::get_if<0>(&outcome_);
  }
  T& value() {
    TENSORPAGER_CHECK(outcome_.index() == 0);
    return *std::get_if<0>(&outcome_);
  }
  const T* operator->() const { return &value(); }

  const E& error() const {
    TENSORPAGER_CHECK(outcome_.index() == 1);
    return *std::get_if<1>(&outcome_);
  }

 private:
  std::variant<T, E> outcome_;
};

}  // namespace tensorpager::base
