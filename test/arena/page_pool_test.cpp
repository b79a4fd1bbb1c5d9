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

TEST(PagePool, GivesBackSmallChangeFirstTheOldestOfIt) {
  PagePool pool;
  pool.put({kA, 64_KiB});
  pool.put({kB, 4_MiB});
  pool.put({kC, 64_KiB});
  EXPECT_EQ(pool.take_oldest(4_KiB), (Piece{kA, 64_KiB})) << "whole, so that no crumbs are left";
  EXPECT_EQ(pool.take_oldest(4_KiB), (Piece{kC, 64_KiB}));
  EXPECT_EQ(pool.take_oldest(4_KiB), (Piece{kB + (4 << 20) - 4096, 4_KiB})) << "no more than is wanted";
  EXPECT_EQ(pool.take_oldest(1_GiB), (Piece{kB, 4_MiB - 4_KiB}));
  EXPECT_EQ(pool.take_oldest(4_KiB), std::nullopt);
  EXPECT_EQ(pool.bytes(), 0_B);
}

TEST(PagePool, CutsTheSmallestPieceThatCovers) {
  PagePool pool;
  pool.put({kA, 512_KiB});
  pool.put({kB, 128_KiB});
  pool.put({kC, 256_KiB});
  EXPECT_EQ(pool.gather(100_KiB), (std::vector<Piece>{{kB + (28 << 10), 100_KiB}}));
  EXPECT_EQ(pool.take_exact(28_KiB), kB);
  EXPECT_EQ(pool.gather(200_KiB), (std::vector<Piece>{{kC + (56 << 10), 200_KiB}}));
}

TEST(PagePool, TakesTheLargestFirstWhereNoneCovers) {
  PagePool pool({.most_pieces = 2});
  pool.put({kA, 64_KiB});
  pool.put({kB, 256_KiB});
  pool.put({kC, 128_KiB});
  EXPECT_EQ(pool.gather(400_KiB), (std::vector<Piece>{{kB, 256_KiB}}));
  EXPECT_EQ(pool.gather(400_KiB), (std::vector<Piece>{{kC, 128_KiB}}));
  EXPECT_EQ(pool.gather(400_KiB), (std::vector<Piece>{{kA, 64_KiB}}));
  EXPECT_TRUE(pool.gather(400_KiB).empty());
}

TEST(PagePool, AnswersHugePagesInHugePages) {
  PagePool pool;
  pool.put({kA, 1_MiB});
  pool.put({kB, 2_MiB});
  EXPECT_EQ(pool.gather(4_MiB), (std::vector<Piece>{{kB, 2_MiB}})) << "the rest comes fresh, in a huge page";
  pool.put({kB, 2_MiB});
  EXPECT_EQ(pool.gather(3_MiB), (std::vector<Piece>{{kB, 2_MiB}, {kA, 1_MiB}}));
}

TEST(PagePool, TakesWholeHugePagesFromTheFrontSoThatAllStaysAligned) {
  PagePool pool;
  pool.put({kA, 5_MiB});
  pool.put({kB, 5_MiB});
  EXPECT_EQ(pool.gather(8_MiB), (std::vector<Piece>{{kB, 4_MiB}, {kA, 4_MiB}}));
  EXPECT_EQ(pool.bytes(), 2_MiB) << "what was behind the huge pages is small change";
  EXPECT_TRUE(pool.gather(2_MiB).empty());
  EXPECT_EQ(pool.take_exact(1_MiB), kA + (4 << 20));
}

TEST(PagePool, MakesSmallChangeOfWhatIsBehindHugePages) {
  PagePool pool;
  pool.put({kA, 5_MiB});
  pool.put({kB, 4_MiB});
  EXPECT_EQ(pool.gather(512_KiB), (std::vector<Piece>{{kA + (4608 << 10), 512_KiB}}));
  EXPECT_EQ(pool.gather(1_MiB), (std::vector<Piece>{{kB + (3 << 20), 1_MiB}})) << "a huge page of the smallest";
  EXPECT_EQ(pool.gather(4_MiB), (std::vector<Piece>{{kA, 4_MiB}}));
}

TEST(PagePool, PrefersPatchesOfSmallChangeToBreakingAHugePage) {
  PagePool pool;
  pool.put({kA, 4_MiB});
  pool.put({kB, 64_KiB});
  pool.put({kC, 64_KiB});
  EXPECT_EQ(pool.gather(128_KiB), (std::vector<Piece>{{kC, 64_KiB}, {kB, 64_KiB}}));
  pool.put({kB, 64_KiB});
  EXPECT_EQ(pool.gather(128_KiB), (std::vector<Piece>{{kA + (4 << 20) - (128 << 10), 128_KiB}})) << "too little";
}

TEST(PagePool, PrefersAnExactPieceToOthers) {
  PagePool pool;
  pool.put({kA, 3_MiB});
  pool.put({kB, 2_MiB});
  EXPECT_EQ(pool.gather(3_MiB), (std::vector<Piece>{{kA, 3_MiB}}));
}

TEST(PagePool, KnowsNoHugePagesWhereTheMachineHasNone) {
  PagePool pool({.has_huge_pages = false});
  pool.put({kA, 4_MiB});
  pool.put({kB, 2_MiB});
  EXPECT_EQ(pool.gather(5_MiB), (std::vector<Piece>{{kA, 4_MiB}, {kB + (1 << 20), 1_MiB}}));
  EXPECT_EQ(pool.take_exact(1_MiB), kB);
}

TEST(PagePool, JoinsTheNeighboursThatCoverWithTheLeastToSpare) {
  // At kA, in KiB: 64 64 128 (64 in use) 64 256.
  PagePool pool;
  pool.put({kA + (64 << 10), 64_KiB});
  pool.put({kA + (320 << 10), 64_KiB});
  pool.put({kA, 64_KiB});
  pool.put({kA + (384 << 10), 128_KiB});
  pool.put({kA + (128 << 10), 128_KiB});
  EXPECT_EQ(pool.gather(188_KiB), (std::vector<Piece>{{kA + (68 << 10), 188_KiB}}));
  EXPECT_EQ(pool.take_exact(64_KiB), kA);
  EXPECT_EQ(pool.gather(192_KiB), (std::vector<Piece>{{kA + (320 << 10), 192_KiB}}));
  EXPECT_EQ(pool.bytes(), 4_KiB);
}

TEST(PagePool, JoinsNothingThatIsApartOrMayNotBeJoined) {
  PagePool pool;
  pool.put({kA, 64_KiB});
  pool.put({kA + (68 << 10), 64_KiB});
  EXPECT_EQ(pool.gather(128_KiB).size(), 2u);
  PagePool apart({.joins = false});
  apart.put({kA, 64_KiB});
  apart.put({kA + (64 << 10), 64_KiB});
  EXPECT_EQ(apart.gather(128_KiB).size(), 2u);
}

TEST(PagePool, IsOnePieceAgainOnceAllThatWasCutIsBack) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    PagePool pool;
    pool.put({kA, 2_MiB});
    std::vector<Piece> taken;
    for (int i = 0; i < 500; ++i) {
      const Bytes size((1 + random() % 75) * kPage.count());
      for (const Piece& piece : pool.gather(size)) {
        for (const Piece& other : taken)
          ASSERT_TRUE(piece.at + piece.bytes.count() <= other.at || other.at + other.bytes.count() <= piece.at);
        taken.push_back(piece);
      }
      while (!taken.empty() && random() % 2 == 0) {
        std::swap(taken[random() % taken.size()], taken.back());
        pool.put(taken.back());
        taken.pop_back();
      }
    }
    for (const Piece& piece : taken) pool.put(piece);
    EXPECT_EQ(pool.gather(2_MiB - 4_KiB).size(), 1u);
    EXPECT_EQ(pool.bytes(), 4_KiB);
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

/// The same promises over a list of pieces, oldest first. It cannot join, so the pool that it judges does not.
class ListModel {
 public:
  void put(Piece piece) { pieces_.push_back(piece); }

  std::byte* take_exact(Bytes size) {
    const auto found = std::find_if(pieces_.rbegin(), pieces_.rend(), [&](const Piece& p) {
      return p.bytes == size && (size < kHugePage || is_huge(p));
    });
    if (found == pieces_.rend()) return nullptr;
    std::byte* at = found->at;
    pieces_.erase(std::next(found).base());
    return at;
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

  Bytes bytes(bool huge) const {
    Bytes sum;
    for (const Piece& piece : pieces_) sum += is_huge(piece) == huge ? piece.bytes : Bytes(0);
    return sum;
  }
  Bytes in_huge_pages() const {
    Bytes sum;
    for (const Piece& piece : pieces_)
      if (is_huge(piece)) sum += Bytes(piece.bytes.count() / kHugePage.count() * kHugePage.count());
    return sum;
  }
  std::size_t pieces() const { return pieces_.size(); }
  std::optional<Piece> oldest_change() const {
    const auto found = std::ranges::find_if(pieces_, [](const Piece& piece) { return !is_huge(piece); });
    return found == pieces_.end() ? std::nullopt : std::optional(*found);
  }

  static bool is_huge(const Piece& piece) {
    return piece.bytes >= kHugePage && address_of(piece) % kHugePage.count() == 0;
  }

 private:
  std::vector<Piece> pieces_;
};

class PagePoolProperty : public testing::TestWithParam<unsigned> {};

TEST_P(PagePoolProperty, AnswersAsAListDoesAndLosesNoByte) {
  SCOPED_TRACE("seed " + std::to_string(GetParam()));
  std::mt19937 random(GetParam());
  const auto below = [&](std::uint64_t n) { return std::uniform_int_distribution<std::uint64_t>(0, n - 1)(random); };
  const auto any_size = [&] { return Bytes((1 + below(below(3) == 0 ? 3000 : 40)) * kPage.count()); };
  constexpr std::size_t kMost = 8;
  PagePool pool({.joins = false, .most_pieces = kMost});
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
        const Bytes wanted = any_size();
        const auto change = model.oldest_change();
        const auto piece = pool.take_oldest(wanted);
        if (!piece) {
          ASSERT_EQ(model.pieces(), 0u);
          break;
        }
        ASSERT_TRUE(!change || *piece == *change);
        ASSERT_TRUE(change || piece->bytes == wanted || piece->bytes < wanted);
        model.cut(*piece);
        ASSERT_FALSE(HasFatalFailure());
        break;
      }
      default: {
        const Bytes size = any_size();
        const Bytes huge_part(size.count() / kHugePage.count() * kHugePage.count());
        const Bytes change = model.bytes(false), huge = model.bytes(true), units = model.in_huge_pages();
        Bytes got;
        const std::vector<Piece> taken = pool.gather(size);
        for (const Piece& piece : taken) {
          got += piece.bytes;
          ASSERT_TRUE(got > huge_part || ListModel::is_huge(piece)) << "huge pages come first";
          cuts += model.pieces();
          model.cut(piece);
          cuts -= model.pieces();
          ASSERT_FALSE(HasFatalFailure());
        }
        ASSERT_LE(got, size);
        ASSERT_LE(taken.size(), kMost + 1);
        const bool could_do_more = units >= huge_part && change + huge >= size;
        ASSERT_TRUE(got == size || taken.size() + 1 >= kMost || !could_do_more);
      }
    }
    ASSERT_EQ(pool.bytes(), model.bytes(true) + model.bytes(false));
    ASSERT_EQ(pool.pieces(), model.pieces());
  }
  EXPECT_GT(cuts, 20u) << "hardly anything was taken whole";
  while (const auto piece = pool.take_oldest(1_GiB)) model.cut(*piece);
  EXPECT_EQ(model.pieces(), 0u);
  EXPECT_EQ(pool.bytes(), 0_B);
}

INSTANTIATE_TEST_SUITE_P(Seed, PagePoolProperty, testing::Range(1u, 21u), testing::PrintToStringParamName());

}  // namespace
}  // namespace tensorpager::arena
