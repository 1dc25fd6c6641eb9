// Jobs, runs and prepared data as deletion sees them: what they own, what they use, and which of
// them a retention policy selects. Values and pure functions; home_items.h reads them from a home.
#ifndef BRAID_SERVER_RETENTION_STORED_ITEM_H_
#define BRAID_SERVER_RETENTION_STORED_ITEM_H_

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace braid {

// A job, a run, or a directory that `braid finetune` prepared. Directories are relative to the
// home: "store/pack-0123456789abcdef".
struct StoredItem {
  std::string id, name = {}, principal = {};
  bool is_run = false;
  // A directory of prepared data, whose id is its name, such as "supervised/pack-0123456789abcdef".
  bool is_prepared = false;
  // A run directory without a row in the list of runs.
  bool is_unlisted = false;
  // Unix seconds; `finished` is meaningful only once it has ended. Prepared data counts as ended
  // since its last use by a command.
  double created = 0, finished = 0;
  std::string state = {};  // in words
  bool ended = false;
  // The directory of the run contains results of evaluations.
  bool evaluated = false;
  // The directories that are deleted with it, unless another item owns them too.
  std::set<std::string> owns = {};
  // The directories of other items that it needs.
  std::set<std::string> uses = {};
  // Its settings are damaged: it may use any directory.
  bool uses_unknown = false;
};

struct RetentionPolicy {
  int64_t keep = 0;       // newest jobs, and as many runs, of each principal
  double older_than = 0;  // seconds since the end
  bool include_evaluated = false;
};

// Sorts items so that what uses another one comes before it: newest first, since an item exists
// before it can be used.
void SortForDeletion(std::vector<StoredItem>* items);

// Returns the indices of the items that `policy` selects at time `now`, ascending. An item that has
// not ended counts among the newest but is never selected. `keep` does not apply to prepared data,
// which is selected by age alone.
std::vector<size_t> SelectByPolicy(std::span<const StoredItem> items, const RetentionPolicy& policy,
                                   double now);

// Returns the directories that would be deleted with the item `id`: those that no other item owns.
// The items in `gone` count as deleted.
std::set<std::string> DirectoriesFreed(std::span<const StoredItem> items, const std::string& id,
                                       const std::set<std::string>& gone);

// Returns which items use one of `directories`, in their order, or "":
//   "run-000009 uses store/pack-0123; run-000003 uses store/pack-0123"
// Five are named and the others counted. An item whose uses are unknown counts as a user; the item
// `id` and those in `gone` do not.
std::string UsersOf(std::span<const StoredItem> items, const std::set<std::string>& directories,
                    const std::string& id, const std::set<std::string>& gone);

}  // namespace braid

#endif  // BRAID_SERVER_RETENTION_STORED_ITEM_H_
