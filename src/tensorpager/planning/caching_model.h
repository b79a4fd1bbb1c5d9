// A model of torch's caching allocator for a device, to say what it would reserve: one pool for requests up to 1 MiB
// and one for larger ones, segments of 2 MiB, 20 MiB or, from 10 MiB on, the request in units
// of 2 MiB, the best fit in a pool, what is left over split off. Segments are never given back.
//
// It leaves out streams, garbage collection, expandable segments, and that a failed request frees what is cached.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "tensorpager/plan/plan.h"
#include "tensorpager/planning/names.h"

namespace tensorpager::planning {

class CachingModel {
 public:
  /// At least 1 byte. Returns the address; segments lie far apart.
  std::uint64_t take(std::uint64_t bytes);
  void give_back(std::uint64_t address);

  std::uint64_t reserved() const { return reserved_; }

 private:
  static constexpr std::uint64_t kApart = std::uint64_t{1} << 45;

  /// Free blocks of a pool.
  struct Pool {
    std::set<std::pair<std::uint64_t, std::uint64_t>> by_size;  // size, address
    std::map<std::uint64_t, std::uint64_t> by_address;          // -> size
  };
  void add(Pool& pool, std::uint64_t address, std::uint64_t size);
  void remove(Pool& pool, std::uint64_t address, std::uint64_t size);

  Pool pools_[2];
  std::map<std::uint64_t, std::uint64_t> taken_;          // address -> size
  std::map<std::uint64_t, std::size_t> pool_of_segment_;  // by address / kApart
  std::uint64_t reserved_ = 0;
  std::uint64_t next_ = 0;
};

/// Reserved where the plan's rows, births and page-ins alike, are requests at their begin, given back at their end or
/// when a wait covers their page-out.
base::Bytes cached_for(const Plan& plan);

}  // namespace tensorpager::planning
