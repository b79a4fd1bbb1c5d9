#include "tensorpager/arena/mappings.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace tensorpager::arena {
namespace {

constexpr std::size_t kPageSize = 4096;
constexpr std::size_t kPages = 200;

/// Every second page may be read, so that each page is a mapping of its own.
class ManyMappings {
 public:
  ManyMappings()
      : begin_(static_cast<char*>(mmap(nullptr, kPages * kPageSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    for (std::size_t page = 0; page < kPages; page += 2)
      EXPECT_EQ(mprotect(begin_ + page * kPageSize, kPageSize, PROT_READ), 0);
  }
  ~ManyMappings() { munmap(begin_, kPages * kPageSize); }
  ManyMappings(const ManyMappings&) = delete;
  ManyMappings& operator=(const ManyMappings&) = delete;

 private:
  char* begin_;
};

TEST(Mappings, CountsThoseOfTheProcess) {
  const std::uint64_t before = Mappings::count_now();
  ASSERT_GT(before, 0u);
  {
    const ManyMappings more;
    EXPECT_GE(Mappings::count_now(), before + kPages - 2);
  }
  EXPECT_LT(Mappings::count_now(), before + kPages / 2);
}

TEST(Mappings, LeavesTheProgramATenthOfTheLimit) {
  const std::uint64_t now = Mappings::count_now();
  Mappings mappings((now + 100) * 10 / 9);
  EXPECT_TRUE(mappings.has_room_for(80));
  EXPECT_FALSE(mappings.has_room_for(130));
}

TEST(Mappings, BelievesItsBoundUntilThatSaysNo) {
  Mappings mappings(1'000'000);
  const ManyMappings unnoticed;
  mappings.add(500'000);
  EXPECT_TRUE(mappings.has_room_for(100));
  // The bound is far too high now; the exact count finds that there is room.
  mappings.add(450'000);
  EXPECT_TRUE(mappings.has_room_for(100));
  EXPECT_TRUE(mappings.has_room_for(890'000));
}

TEST(Mappings, SeesMappingsThatWereNotedWhenTheyExist) {
  Mappings mappings((Mappings::count_now() + 100) * 10 / 9);
  const ManyMappings more;
  mappings.add(kPages);
  EXPECT_FALSE(mappings.has_room_for(10));
}

TEST(Mappings, TakesTheKernelsLimitByDefault) {
  EXPECT_GE(Mappings().limit(), 1000u);
  EXPECT_TRUE(Mappings().has_room_for(10));
}

}  // namespace
}  // namespace tensorpager::arena
