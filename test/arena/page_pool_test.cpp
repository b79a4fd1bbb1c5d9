#include "tensorpager/arena/page_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tensorpager::arena {

bool operator==(const Piece& a, const Piece& b) { return a.at == b.at && a.bytes == b.bytes; }
void PrintTo(const Piece& piece, std::ostream* out) {
  *out << static_cast<const void*>(piece.at) << "+" << base::format_bytes(piece.bytes);
}

namespace {

using namespace base;

/// The pool keeps books only, so places need not exist.
std::byte* place(std::uint64_t address) { return reinterpret_cast<std::byte*>(address); }
std::uint64_t address_of(const Piece& piece) { return reinterpret_cast<std::uint64_t>(piece.at); }

std::byte* const kA = place(std::uint64_t{1} << 40);
std::byte* const kB = place(std::uint64_t{2} << 40);
std::byte* const kC = place(std::uint64_t{3} << 40);

TEST(PagePool, GivesTheNewestOfExactlyThatSize) {
  PagePool pool;
  pool.put({kA, 64_KiB});
  pool.put({kB, 64_KiB});
  pool.put({kC, 128_KiB});
  EXPECT_EQ(pool.take_exact(32_KiB), nullptr);
  EXPECT_EQ(pool.take_exact(64_KiB), kB);
  EXPECT_EQ(pool.take_exact(64_KiB), kA);
  EXPECT_EQ(pool.take_exact(64_KiB), nullptr);
  EXPECT_EQ(pool.bytes(), 128_KiB);
  EXPECT_EQ(pool.pieces(), 1u);
}

TEST(PagePool, GivesTheOldestWhateverItsSize) {
  PagePool pool;
  pool.put({kA, 64_KiB});
  pool.put({kB, 4_MiB});
  pool.put({kC, 64_KiB});
  EXPECT_EQ(pool.take_oldest(), (Piece{kA, 64_KiB}));
  EXPECT_EQ(pool.take_oldest(), (Piece{kB, 4_MiB}));
  EXPECT_EQ(pool.take_oldest(), (Piece{kC, 64_KiB}));
  EXPECT_EQ(pool.take_oldest(), std::nullopt);
  EXPECT_EQ(pool.bytes(), 0_B);
}

TEST(PagePool, CutsTheSmallestPieceThatCovers) {
  PagePool pool;
  pool.put({kA, 512_KiB});
  pool.put({kB, 128_KiB});
  pool.put({kC, 256_KiB});
  EXPECT_EQ(pool.take_up_to(100_KiB, 8), (std::vector<Piece>{{kB + (28 << 10), 100_KiB}}));
  EXPECT_EQ(pool.take_exact(28_KiB), kB);
}

TEST(PagePool, TakesTheLargestFirstWhereNoneCovers) {
  PagePool pool;
  pool.put({kA, 64_KiB});
  pool.put({kB, 256_KiB});
  pool.put({kC, 128_KiB});
  EXPECT_EQ(pool.take_up_to(1_MiB, 2), (std::vector<Piece>{{kB, 256_KiB}, {kC, 128_KiB}}));
  EXPECT_EQ(pool.take_up_to(1_MiB, 2), (std::vector<Piece>{{kA, 64_KiB}}));
  EXPECT_TRUE(pool.take_up_to(1_MiB, 2).empty());
}

TEST(PagePool, LeavesTheRestOfALargePieceAligned) {
  PagePool pool;
  pool.put({kA, 10_MiB});
  EXPECT_EQ(pool.take_up_to(4_KiB, 8), (std::vector<Piece>{{kA + (10 << 20) - 4096, 4_KiB}}));
  EXPECT_EQ(pool.take_up_to(4_MiB, 8), (std::vector<Piece>{{kA, 4_MiB}}));
  EXPECT_EQ(pool.take_exact(6_MiB - 4_KiB), kA + (4 << 20));
}

TEST(PagePool, CutsWhatIsNoNumberOfHugePagesFromTheEnd) {
  PagePool pool;
  pool.put({kA, 5_MiB});
  pool.put({kB, 5_MiB});
  EXPECT_EQ(pool.take_up_to(8_MiB, 8), (std::vector<Piece>{{kB, 5_MiB}, {kA + (2 << 20), 3_MiB}}));
  EXPECT_EQ(pool.take_exact(2_MiB), kA);
}

TEST(PagePool, AnswersHugePagesInHugePages) {
  PagePool pool;
  pool.put({kA, 1_MiB});
  pool.put({kB, 2_MiB});
  EXPECT_EQ(pool.take_up_to(4_MiB, 8), (std::vector<Piece>{{kB, 2_MiB}})) << "the rest comes fresh, in a huge page";
  pool.put({kB, 2_MiB});
  EXPECT_EQ(pool.take_up_to(3_MiB, 8), (std::vector<Piece>{{kB, 2_MiB}, {kA, 1_MiB}}));
}

TEST(PagePool, PrefersAnExactPieceToHugePages) {
  PagePool pool;
  pool.put({kA, 3_MiB});
  pool.put({kB, 2_MiB});
  EXPECT_EQ(pool.take_up_to(3_MiB, 8), (std::vector<Piece>{{kA, 3_MiB}}));
}

TEST(PagePool, CoversFromOnePieceOrNotAtAll) {
  PagePool pool;
  pool.put({kA, 64_KiB});
  pool.put({kB, 256_KiB});
  pool.put({kC, 128_KiB});
  EXPECT_EQ(pool.take_covering(100_KiB), (Piece{kC + (28 << 10), 100_KiB}));
  EXPECT_EQ(pool.take_covering(300_KiB), std::nullopt);
  EXPECT_EQ(pool.bytes(), 348_KiB);
}

TEST(PagePool, CoversHugePagesFromTheEndThatBeginsWithOne) {
  PagePool pool;
  pool.put({kA, 5_MiB});
  EXPECT_EQ(pool.take_covering(3_MiB), (Piece{kA + (2 << 20), 3_MiB}));
  pool.put({kB, 5_MiB});
  EXPECT_EQ(pool.take_covering(Bytes(3584 << 10)), (Piece{kB, Bytes(3584 << 10)}));
}

TEST(PagePool, JoinsTheNeighboursThatCoverWithTheLeastToSpare) {
  // At kA, in KiB: 64 64 128 (64 in use) 64 256.
  PagePool pool;
  pool.put({kA + (64 << 10), 64_KiB});
  pool.put({kA + (320 << 10), 64_KiB});
  pool.put({kA, 64_KiB});
  pool.put({kA + (384 << 10), 256_KiB});
  pool.put({kA + (128 << 10), 128_KiB});
  pool.coalesce(180_KiB);
  EXPECT_EQ(pool.pieces(), 4u) << "64 + 128 are one, the others as they were";
  EXPECT_EQ(pool.take_exact(192_KiB), kA + (64 << 10));
  EXPECT_EQ(pool.take_exact(64_KiB), kA);
  pool.coalesce(280_KiB);
  EXPECT_EQ(pool.take_exact(320_KiB), kA + (320 << 10));
  EXPECT_EQ(pool.bytes(), 0_B);
}

TEST(PagePool, JoinsAllNeighboursWhereNoneCover) {
  PagePool pool;
  pool.put({kA, 64_KiB});
  pool.put({kB, 64_KiB});
  pool.put({kB + (64 << 10), 64_KiB});
  pool.put({kA + (64 << 10), 128_KiB});
  pool.put({kC, 64_KiB});
  pool.coalesce(1_MiB);
  EXPECT_EQ(pool.pieces(), 3u);
  EXPECT_EQ(pool.take_exact(192_KiB), kA);
  EXPECT_EQ(pool.take_exact(128_KiB), kB);
  EXPECT_EQ(pool.take_exact(64_KiB), kC);
}

TEST(PagePool, JoinsNothingThatIsApart) {
  PagePool pool;
  pool.put({kA, 64_KiB});
  pool.put({kA + (68 << 10), 64_KiB});
  pool.coalesce(128_KiB);
  EXPECT_EQ(pool.pieces(), 2u);
  PagePool().coalesce(4_KiB);
}

TEST(PagePool, IsOnePieceAgainOnceAllThatWasCutIsBack) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    PagePool pool;
    pool.put({kA, 8_MiB});
    std::vector<Piece> taken;
    for (int i = 0; i < 500; ++i) {
      const Bytes size((1 + random() % 300) * kPage.count());
      auto piece = pool.take_covering(size);
      if (!piece) {
        pool.coalesce(size);
        piece = pool.take_covering(size);
      }
      if (piece) {
        ASSERT_EQ(piece->bytes, size);
        for (const Piece& other : taken)
          ASSERT_TRUE(piece->at + size.count() <= other.at || other.at + other.bytes.count() <= piece->at);
        taken.push_back(*piece);
      }
      if (!taken.empty() && random() % 2 == 0) {
        std::swap(taken[random() % taken.size()], taken.back());
        pool.put(taken.back());
        taken.pop_back();
      }
    }
    for (const Piece& piece : taken) pool.put(piece);
    ASSERT_GT(pool.pieces(), 1u);
    pool.coalesce(8_MiB);
    EXPECT_EQ(pool.take_exact(8_MiB), kA);
    EXPECT_EQ(pool.pieces(), 0u);
  }
}

TEST(PagePool, LosesNothingAmongSizesThatNeverRepeat) {
  constexpr std::uint64_t kSizes = 20'000;
  PagePool pool;
  pool.put({kA, 4_KiB});
  for (std::uint64_t i = 2; i < kSizes; ++i) {
    const Bytes size(i * kPage.count());
    pool.put({kB, size});
    ASSERT_EQ(pool.take_exact(size), kB);
  }
  EXPECT_EQ(pool.pieces(), 1u);
  EXPECT_EQ(pool.take_exact(4_KiB), kA);
}

/// The same promises over a list of pieces, oldest first.
class ListModel {
 public:
  void put(Piece piece) { pieces_.push_back(piece); }

  std::byte* take_exact(Bytes size) {
    const auto found = std::find_if(pieces_.rbegin(), pieces_.rend(), [&](const Piece& p) { return p.bytes == size; });
    if (found == pieces_.rend()) return nullptr;
    std::byte* at = found->at;
    pieces_.erase(std::next(found).base());
    return at;
  }

  std::optional<Piece> take_oldest() {
    if (pieces_.empty()) return std::nullopt;
    const Piece piece = pieces_.front();
    pieces_.erase(pieces_.begin());
    return piece;
  }

  /// Takes over the pool's choice, which must be a piece or an end of one.
  void cut(const Piece& taken) {
    const auto whole = std::find_if(pieces_.begin(), pieces_.end(), [&](const Piece& p) {
      return taken.at >= p.at && taken.at + taken.bytes.count() <= p.at + p.bytes.count();
    });
    ASSERT_NE(whole, pieces_.end()) << "was not in the pool";
    const Piece from = *whole;
    pieces_.erase(whole);
    const std::uint64_t before = address_of(taken) - address_of(from);
    const Bytes rest = from.bytes - taken.bytes;
    if (rest == 0_B) return;
    ASSERT_TRUE(before == 0 || Bytes(before) == rest) << "was cut from the middle";
    put({before == 0 ? from.at + taken.bytes.count() : from.at, rest});
    ASSERT_TRUE(!is_huge(from) || rest < kHugePage || is_huge(pieces_.back())) << "the rest is not aligned";
  }

  Bytes bytes() const {
    Bytes sum;
    for (const Piece& piece : pieces_) sum += piece.bytes;
    return sum;
  }
  std::size_t pieces() const { return pieces_.size(); }
  bool has_huge() const {
    return std::any_of(pieces_.begin(), pieces_.end(), [](const Piece& p) { return p.bytes >= kHugePage; });
  }

 private:
  static bool is_huge(const Piece& piece) {
    return piece.bytes >= kHugePage && address_of(piece) % kHugePage.count() == 0;
  }

  std::vector<Piece> pieces_;
};

class PagePoolProperty : public testing::TestWithParam<unsigned> {};

TEST_P(PagePoolProperty, AnswersAsAListDoesAndLosesNoByte) {
  SCOPED_TRACE("seed " + std::to_string(GetParam()));
  std::mt19937 random(GetParam());
  const auto below = [&](std::uint64_t n) { return std::uniform_int_distribution<std::uint64_t>(0, n - 1)(random); };
  const auto any_size = [&] { return Bytes((1 + below(below(3) == 0 ? 3000 : 40)) * kPage.count()); };
  PagePool pool;
  ListModel model;
  std::uint64_t next = std::uint64_t{1} << 40;
  std::size_t cuts = 0;

  for (int step = 0; step < 3000; ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    switch (below(5)) {
      case 0:
      case 1: {
        const Piece piece{place(next), any_size()};
        next += base::round_up(piece.bytes, kHugePage).count() + kHugePage.count();
        pool.put(piece);
        model.put(piece);
        break;
      }
      case 2: {
        const Bytes size = any_size();
        ASSERT_EQ(pool.take_exact(size), model.take_exact(size));
        break;
      }
      case 3: {
        if (below(2) == 0) break;
        ASSERT_EQ(pool.take_oldest(), model.take_oldest());
        break;
      }
      default: {
        const Bytes size = any_size();
        const std::size_t limit = 1 + below(8);
        const std::size_t before = model.pieces();
        Bytes got;
        const std::vector<Piece> taken = pool.take_up_to(size, limit);
        for (const Piece& piece : taken) {
          got += piece.bytes;
          model.cut(piece);
          ASSERT_FALSE(HasFatalFailure());
        }
        cuts += before - taken.size() < model.pieces() ? 1 : 0;
        ASSERT_LE(got, size);
        ASSERT_LE(taken.size(), limit);
        const bool more_to_give = size < kHugePage ? model.pieces() > 0 : model.has_huge();
        ASSERT_TRUE(got == size || taken.size() == limit || !more_to_give);
      }
    }
    ASSERT_EQ(pool.bytes(), model.bytes());
    ASSERT_EQ(pool.pieces(), model.pieces());
  }
  EXPECT_GT(cuts, 20u) << "hardly anything was cut";
  while (const auto piece = pool.take_oldest()) ASSERT_EQ(piece, model.take_oldest());
  EXPECT_EQ(model.pieces(), 0u);
  EXPECT_EQ(pool.bytes(), 0_B);
}

INSTANTIATE_TEST_SUITE_P(Seed, PagePoolProperty, testing::Range(1u, 21u), testing::PrintToStringParamName());

}  // namespace
}  // namespace tensorpager::arena
