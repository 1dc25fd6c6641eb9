#include "trainer/checkpoint_agreement.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "runs/checkpoint.h"
#include "runs/checkpoint_directory.h"
#include "trainer/parallel/communicator.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

// Lists the checkpoints on rank 0 and sends the names to all ranks. On a network file system two
// ranks could list different directories, and verifying is collective.
absl::StatusOr<std::vector<std::string>> AgreeOnList(Communicator& communicator,
                                                     const fs::path& directory) {
  absl::StatusOr<std::vector<std::string>> names = std::vector<std::string>();
  if (communicator.rank() == 0) names = ListCheckpoints(directory);
  RETURN_IF_ERROR(AgreeOnStatus(communicator, names.status()));
  ASSIGN_OR_RETURN(const std::string text,
                   BroadcastText(communicator, absl::StrJoin(*names, "\n"), 0));
  return std::vector<std::string>(absl::StrSplit(text, '\n', absl::SkipEmpty()));
}

// Sets `*damage` to what any rank found wrong with its share of a checkpoint. Other errors, as when
// a file server does not answer, are returned: to pass over a checkpoint that may be good would
// repeat its steps, or the whole run.
absl::Status VerifyTogether(Communicator& communicator, const fs::path& checkpoint,
                            absl::Status* damage) {
  absl::Status mine = VerifyCheckpoint(checkpoint, communicator.rank(), communicator.world_size());
  if (absl::IsDataLoss(mine) && !IsCheckpointDamage(mine)) {  // EIO
    mine = absl::UnavailableError(absl::StrCat(
        mine.message(), "; if it persists, remove the checkpoint to resume from an older one"));
  }
  RETURN_IF_ERROR(AgreeOnStatus(communicator, IsCheckpointDamage(mine) ? absl::OkStatus() : mine));
  // Only damage is left. `damaged` is the same on every rank, so all of them make the call below or
  // none.
  ASSIGN_OR_RETURN(const bool damaged, AnyRank(communicator, !mine.ok()));
  if (damaged) *damage = AgreeOnStatus(communicator, mine);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<fs::path>> AgreeOnNewestGoodCheckpoint(
    Communicator& communicator, const fs::path& checkpoints, std::ostream& warnings,
    const std::function<bool(int64_t)>& preferred) {
  ASSIGN_OR_RETURN(std::vector<std::string> names, AgreeOnList(communicator, checkpoints));
  // Stable, so that both parts stay in the order from newest to oldest.
  std::ranges::stable_partition(
      names, [&](const std::string& name) { return preferred(StepOfCheckpoint(name)); });
  std::vector<std::string> skipped;
  auto found = FirstGoodCheckpoint(
      checkpoints, names,
      [&](const fs::path& checkpoint, absl::Status* damage) {
        return VerifyTogether(communicator, checkpoint, damage);
      },
      &skipped);
  if (communicator.rank() == 0) {
    for (const std::string& cause : skipped) warnings << cause << "; skipped" << std::endl;
  }
  return found;
}

}  // namespace braid
