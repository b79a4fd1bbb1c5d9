// A libtorch_cpu.so of a version that is to come.
#include <cstdint>

extern "C" [[gnu::visibility("default")]] std::uint64_t aoti_torch_abi_version() {
  return std::uint64_t{9} << 56 | std::uint64_t{1} << 48 | std::uint64_t{2} << 40;
}
