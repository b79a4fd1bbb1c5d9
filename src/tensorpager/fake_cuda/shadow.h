// For each granule of a piece of memory: which task wrote it last, and which have read it since. Untouched memory costs
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tensorpager::fake_cuda {

class Shadow {
 public:
  static constexpr std::size_t kGranule = 512;  // bytes; what torch's and our allocators align to

  /// What happened to one granule since it was allocated.
  struct Row {
    std::uint32_t* cells;
    std::uint32_t& write_position() { return cells[0]; }  // 0: never
    std::uint32_t& writer() { return cells[1]; }          // a queue
    std::uint32_t& read_position(int queue) { return cells[2 + queue]; }
  };

  Shadow(const void* base, std::size_t bytes, int queues);
  ~Shadow();
  Shadow(Shadow&& other) noexcept;
  Shadow& operator=(Shadow&&) = delete;

  bool holds(const void* address) const;
  std::size_t offset_of(const void* address) const { return static_cast<std::size_t>(start(address) - base_); }
  Row row(std::size_t granule) { return Row{cells_ + granule * cells_per_row_}; }
  /// Resets these bytes: they are new. Gives memory back.
  void forget(const void* from, std::size_t bytes);

 private:
  static const char* start(const void* address) { return static_cast<const char*>(address); }

  const char* base_;
  std::size_t bytes_;
  std::size_t cells_per_row_;
  std::uint32_t* cells_;
  std::size_t mapped_bytes_;
};

}  // namespace tensorpager::fake_cuda
