// A vector of small plain values that stores the first N inline: frames are made at every op and must not allocate.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <type_traits>

namespace tensorpager::base {

template <typename T, std::size_t N>
class InlineVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  InlineVector() = default;
  InlineVector(const InlineVector& other) { *this = other; }
  InlineVector& operator=(const InlineVector& other) {
    if (this == &other) return *this;
    size_ = 0;
    while (capacity_ < other.size_) grow();
    if (other.size_ != 0) std::memcpy(data_, other.data_, other.size_ * sizeof(T));
    size_ = other.size_;
    return *this;
  }
  ~InlineVector() = default;

  void push_back(T value) {
    if (size_ == capacity_) [[unlikely]]
      grow();
    data_[size_++] = value;
  }
  void clear() { size_ = 0; }
  /// Keeps the first `size`, at most as many as there are.
  void truncate(std::size_t size) { size_ = size; }
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  [[gnu::noinline]] void grow() {
    auto larger = std::make_unique<T[]>(capacity_ * 2);
    std::memcpy(larger.get(), data_, size_ * sizeof(T));
    heap_ = std::move(larger);
    data_ = heap_.get();
    capacity_ *= 2;
  }

  alignas(T) std::byte inline_[N * sizeof(T)];  // not set: T may have initialisers
  T* data_ = reinterpret_cast<T*>(inline_);
  std::size_t size_ = 0;
  std::size_t capacity_ = N;
  std::unique_ptr<T[]> heap_;
};

}  // namespace tensorpager::base
