#include "tensorpager/base/op_signature.h"

#include "tensorpager/base/config.h"

namespace tensorpager::base {

std::uint64_t name_hash(std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325;  // FNV-1a
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3;
  return hash;
}

void OpSignature::add(Bytes size) {
  if (size < kMinPagedBytes) return;
  // The mixed sizes are added, so that their order does not matter; unmixed, different sizes could have the same sum.
  std::uint64_t mixed = size.count() * 0x9E3779B97F4A7C15;
  mixed = (mixed ^ (mixed >> 32)) * 0xD6E8FEB86659FD93;
  sizes += mixed ^ (mixed >> 32);
}

}  // namespace tensorpager::base
