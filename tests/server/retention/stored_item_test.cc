#include "server/retention/stored_item.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace braid {
namespace stored_item_test {

using testing::ElementsAre;
using testing::IsEmpty;

StoredItem JobItem(const std::string& id, double created, std::set<std::string> owns) {
  return {.id = id, .created = created, .ended = true, .owns = std::move(owns)};
}
StoredItem RunItem(const std::string& id, double created, std::set<std::string> uses) {
  return {.id = id,
          .is_run = true,
          .created = created,
          .ended = true,
          .owns = {"runs/" + id},
          .uses = std::move(uses)};
}

TEST(StoredItemTest, DirectoriesOfSeveralJobsAreFreedWithTheLastOfThem) {
  const std::vector<StoredItem> items = {JobItem("job-2", 2, {"store/i", "store/q"}),
                                         JobItem("job-1", 1, {"store/i", "store/p"})};
  EXPECT_THAT(DirectoriesFreed(items, "job-1", {}), ElementsAre("store/p"));
  EXPECT_THAT(DirectoriesFreed(items, "job-1", {"job-2"}), ElementsAre("store/i", "store/p"));
  EXPECT_THAT(DirectoriesFreed(items, "job-3", {}), IsEmpty());
}

TEST(StoredItemTest, UsersAreOtherItemsThatAreNotGone) {
  const std::vector<StoredItem> items = {RunItem("run-1", 3, {"store/p"}),
                                         JobItem("job-1", 1, {"store/p"})};
  EXPECT_EQ(UsersOf(items, {"store/p"}, "job-1", {}), "run-1 uses store/p");
  EXPECT_EQ(UsersOf(items, {"store/p"}, "job-1", {"run-1"}), "");
  EXPECT_EQ(UsersOf(items, {"store/p"}, "run-1", {}), "") << "an item does not keep itself";
  EXPECT_EQ(UsersOf(items, {"store/q"}, "job-1", {}), "");
}

TEST(StoredItemTest, FiveUsersAreNamedOnceEachAndTheOthersCounted) {
  std::vector<StoredItem> items;
  std::vector<std::string> named;
  for (int i = 1; i <= 7; ++i) {
    items.push_back(RunItem(absl::StrCat("run-", i), i, {"store/p", "store/q"}));
    if (i <= 5) named.push_back(absl::StrCat("run-", i, " uses store/p"));
    const std::string others = i <= 5 ? "" : absl::StrCat("; and ", i - 5, " more");
    EXPECT_EQ(UsersOf(items, {"store/p", "store/q"}, "job-1", {}),
              absl::StrCat(absl::StrJoin(named, "; "), others));
  }
  items[1].uses_unknown = true;
  EXPECT_EQ(UsersOf({items.data(), 2}, {"store/q"}, "job-1", {}),
            "run-1 uses store/q; run-2, whose settings are damaged, may use store/q");
}

TEST(StoredItemTest, UsersAreDeletedBeforeWhatTheyUse) {
  std::vector<StoredItem> items = {
      JobItem("job-1", 1, {"store/p"}), RunItem("run-1", 2, {"store/p"}),
      RunItem("run-2", 3, {"runs/run-1"}), JobItem("job-2", 2, {"store/q"})};
  SortForDeletion(&items);
  std::vector<std::string> ids;
  for (const StoredItem& item : items) ids.push_back(item.id);
  EXPECT_THAT(ids, ElementsAre("run-2", "run-1", "job-2", "job-1"));
}

// The oracle counts, for each item, the newer ones of its kind and principal.
TEST(RetentionPolicyTest, SelectsWhatIsNeitherAmongTheNewestNorYoung) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<StoredItem> items;
    for (int i = 0; i < 12; ++i) {
      items.push_back({.id = absl::StrCat("x-", i),
                       .principal = random() % 2 ? "ann" : "bob",
                       .is_run = random() % 2 == 0,
                       .created = static_cast<double>(random() % 1000),
                       .finished = static_cast<double>(random() % 2000),
                       .ended = random() % 4 != 0,
                       .evaluated = random() % 4 == 0});
    }
    const RetentionPolicy policy = {.keep = static_cast<int64_t>(random() % 4),
                                    .older_than = static_cast<double>(random() % 1500),
                                    .include_evaluated = random() % 2 == 0};
    const double now = 2000;
    std::vector<size_t> expected;
    for (size_t i = 0; i < items.size(); ++i) {
      const StoredItem& item = items[i];
      int64_t newer = 0;
      for (const StoredItem& other : items) {
        newer += other.principal == item.principal && other.is_run == item.is_run &&
                 std::pair(other.created, other.id) > std::pair(item.created, item.id);
      }
      const double end = std::max(item.created, item.finished);
      if (item.ended && newer >= policy.keep && now - end >= policy.older_than &&
          (policy.include_evaluated || !item.evaluated)) {
        expected.push_back(i);
      }
    }
    EXPECT_EQ(SelectByPolicy(items, policy, now), expected) << "round " << round;
  }
}

}  // namespace stored_item_test
}  // namespace braid
