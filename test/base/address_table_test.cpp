#include "tensorpager/base/address_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace tensorpager::base {
namespace {

struct Entry {
  const void* of;
  int number = 0;
};
using Table = AddressTable<Entry, &Entry::of>;

const void* address(std::size_t i) { return reinterpret_cast<const void*>(i * 16); }

/// The entries of the library live until the process ends; those of a test until its table does.
class AddressTableTest : public testing::Test {
 protected:
  ~AddressTableTest() override {
    table->for_each([](const Entry& entry) { delete &entry; });
  }
  std::unique_ptr<Table> table = std::make_unique<Table>();
};

TEST_F(AddressTableTest, FindsWhatWasInsertedAndNothingElse) {
  for (std::size_t i = 1; i <= 1000; ++i) table->insert(std::make_unique<Entry>(address(i), static_cast<int>(i)));
  for (std::size_t i = 1; i <= 1000; ++i) {
    ASSERT_NE(table->find(address(i)), nullptr);
    EXPECT_EQ(table->find(address(i))->number, static_cast<int>(i));
  }
  EXPECT_EQ(table->find(address(1001)), nullptr);
  std::size_t visited = 0;
  table->for_each([&](const Entry&) { ++visited; });
  EXPECT_EQ(visited, 1000u);
}

TEST_F(AddressTableTest, KeepsTheFirstOfTwoEntriesOfOneObject) {
  const Entry* first = table->insert(std::make_unique<Entry>(address(1), 1));
  EXPECT_EQ(table->insert(std::make_unique<Entry>(address(1), 2)), first);
  EXPECT_EQ(table->find(address(1)), first);
}

TEST_F(AddressTableTest, RefusesTheEntryThatWouldLeaveNoFreeSlot) {
  for (std::size_t i = 1; i < Table::kSlots; ++i)
    ASSERT_NE(table->insert(std::make_unique<Entry>(address(i))), nullptr) << i;
  EXPECT_EQ(table->insert(std::make_unique<Entry>(address(Table::kSlots))), nullptr);
  EXPECT_EQ(table->find(address(Table::kSlots)), nullptr);
}

TEST_F(AddressTableTest, GivesAllThreadsOneEntryOfAnObject) {
  std::vector<std::vector<const Entry*>> found(4);
  std::vector<std::thread> threads;
  for (auto& mine : found)
    threads.emplace_back([&] {
      for (std::size_t i = 1; i <= 500; ++i) mine.push_back(table->insert(std::make_unique<Entry>(address(i))));
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& mine : found) EXPECT_EQ(mine, found[0]);
}

}  // namespace
}  // namespace tensorpager::base
