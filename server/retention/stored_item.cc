#include "server/retention/stored_item.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace braid {
namespace {

// More than these would hide what to do, at the end of the message.
constexpr size_t kMaxNamedUsers = 5;

}  // namespace

void SortForDeletion(std::vector<StoredItem>* items) {
  // A damaged job, whose time is unknown, may use any other and frees nothing. A run comes before a
  // job of the same moment, since it may use the job.
  const auto key = [](const StoredItem& item) {
    return std::tuple(item.uses_unknown && !item.is_run, item.created, item.is_run, item.id);
  };
  std::ranges::sort(*items, std::ranges::greater(), key);
}

std::vector<size_t> SelectByPolicy(std::span<const StoredItem> items, const RetentionPolicy& policy,
                                   double now) {
  std::vector<size_t> newest_first(items.size());
  std::iota(newest_first.begin(), newest_first.end(), size_t{0});
  std::ranges::stable_sort(newest_first, [&](size_t a, size_t b) {
    return std::tie(items[b].created, items[b].id) < std::tie(items[a].created, items[a].id);
  });
  std::map<std::pair<std::string, bool>, int64_t> seen;
  std::vector<size_t> selected;
  for (const size_t i : newest_first) {
    const StoredItem& item = items[i];
    if (item.is_prepared) {
      if (policy.older_than > 0 && now - item.finished >= policy.older_than) selected.push_back(i);
      continue;
    }
    const int64_t rank = seen[{item.principal, item.is_run}]++;
    if (!item.ended || rank < policy.keep ||
        now - std::max(item.finished, item.created) < policy.older_than)
      continue;
    if (item.evaluated && !policy.include_evaluated) continue;
    selected.push_back(i);
  }
  std::ranges::sort(selected);
  return selected;
}

std::set<std::string> DirectoriesFreed(std::span<const StoredItem> items, const std::string& id,
                                       const std::set<std::string>& gone) {
  std::set<std::string> freed;
  for (const StoredItem& item : items) {
    if (item.id == id) freed.insert(item.owns.begin(), item.owns.end());
  }
  for (const StoredItem& item : items) {
    if (item.id == id || gone.contains(item.id)) continue;
    for (const std::string& directory : item.owns) freed.erase(directory);
  }
  return freed;
}

std::string UsersOf(std::span<const StoredItem> items, const std::set<std::string>& directories,
                    const std::string& id, const std::set<std::string>& gone) {
  std::vector<std::string> users;
  for (const StoredItem& item : items) {
    if (item.id == id || gone.contains(item.id) || directories.empty()) continue;
    const auto used = std::ranges::find_if(
        item.uses, [&](const std::string& directory) { return directories.contains(directory); });
    if (item.uses_unknown) {
      users.push_back(
          absl::StrCat(item.id, ", whose settings are damaged, may use ", *directories.begin()));
    } else if (used != item.uses.end()) {
      users.push_back(absl::StrCat(item.id, " uses ", *used));
    }
  }
  const size_t num_named = std::min(users.size(), kMaxNamedUsers);
  const size_t num_others = users.size() - num_named;
  users.resize(num_named);
  return absl::StrCat(absl::StrJoin(users, "; "),
                      num_others > 0 ? absl::StrCat("; and ", num_others, " more") : "");
}

}  // namespace braid
