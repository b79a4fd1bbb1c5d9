// Which parts of a span of addresses are allocated, as offsets. Knows no memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace tensorpager::fake_cuda {

enum class Fit { kFirst, kBest };

class MemoryBook {
 public:
  static constexpr std::size_t kUnit = 512;  // sizes and offsets are multiples of this

  struct Block {
    std::size_t offset;
    std::size_t bytes;
  };

  /// At most `limit` bytes of the `span` are allocated at a time.
  MemoryBook(std::size_t span, std::size_t limit, Fit fit);

  /// The block's offset; nullopt if the bytes are over the limit or no free part holds them.
  std::optional<std::size_t> allocate(std::size_t bytes);
  /// The block that began at the offset; nullopt if none does.
  std::optional<Block> free(std::size_t offset);
  /// The block that holds the offset.
  std::optional<Block> find(std::size_t offset) const;
  std::size_t used() const { return used_; }
  std::size_t limit() const { return limit_; }

 private:
  using Parts = std::map<std::size_t, std::size_t>;  // bytes, by offset

  Parts::iterator choose(std::size_t bytes);

  std::size_t limit_;
  Fit fit_;
  std::size_t used_ = 0;
  Parts free_;  // no two touch
  Parts allocated_;
};

}  // namespace tensorpager::fake_cuda
