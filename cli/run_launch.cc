#include "cli/run_launch.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "base/status_macros.h"
#include "cli/command.h"
#include "client/follow.h"
#include "client/terminal/tables.h"
#include "formats/packed_dataset.h"
#include "rpc/interrupt.h"
#include "runs/main_figures.h"

namespace braid {
namespace {

void WarnOfSelfRouting(const v1::RunSpec& spec) {
  if (!RoutesOnItself(spec.model())) return;
  const int length = spec.model().sequence_length();
  std::cerr << "braid: warning: model.routing.segment_length: got " << length
            << ", which is the whole sequence: its only segment routes on the tokens that it "
               "predicts, so losses are too low; set a smaller divisor of "
            << length << " (--segment-length)" << std::endl;
}

// The smallest batch with which similarity order lowered held-out losses.
constexpr int32_t kBatchForSimilarity = 64;

// Returns false for a dataset that is on the machine of the service alone.
bool IsInSimilarityOrder(const std::string& dataset_dir) {
  const absl::StatusOr<DatasetInfo> info = ReadDatasetInfo(dataset_dir);
  return info.ok() && info->order == "SIMILARITY";
}

void NoteSmallBatchOfSimilarDocuments(const v1::RunSpec& spec) {
  const int32_t batch = spec.batch().global_batch_size();
  // A branch keeps the batch and data of its run.
  if (batch >= kBatchForSimilarity || !spec.branch_from().empty()) return;
  const bool similar =
      spec.datasets().empty()
          ? IsInSimilarityOrder(spec.dataset_dir())
          : std::ranges::all_of(spec.datasets(), [](const v1::MixtureDataset& entry) {
              return IsInSimilarityOrder(entry.dataset());
            });
  if (!similar) return;
  std::cerr << "braid: note: a batch of " << batch << (batch == 1 ? " sequence" : " sequences")
            << " on documents in similarity order: with small batches, random order gave lower "
               "held-out losses (docs/reproduction/order.md); submit the corpus with --order "
               "random, or train with --batch "
            << kBatchForSimilarity << std::endl;
}

}  // namespace

absl::Status LaunchAndFollow(Session& session, const v1::RunSpec& spec,
                             const std::string& request_id, bool wait) {
  v1::LaunchRunRequest request;
  *request.mutable_spec() = spec;
  request.set_request_id(request_id.empty() ? NewRequestId() : request_id);
  ASSIGN_OR_RETURN(TrainingClient client, session.Training());
  ProgressBoard board(std::cerr, IsTerminal(STDERR_FILENO));
  ASSIGN_OR_RETURN(v1::Run run, LaunchOnce(client, request, board));
  WarnOfSelfRouting(run.spec());
  if (!session.json) NoteSmallBatchOfSimilarDocuments(run.spec());
  if (wait) {
    CatchInterrupts();
    std::cerr << run.id() << "  " << NameText(run.spec().name()) << "  " << run.run_dir()
              << std::endl;
    ASSIGN_OR_RETURN(run, FollowRun(client, run.id(), run.id(), board));
  }
  board.Close();
  // A run that failed or was stopped is printed too, since a script needs its id.
  if (session.json) std::cout << ToPrettyJson(run) << std::endl;
  if (wait) RETURN_IF_ERROR(RunOutcome(run));
  if (session.json) return absl::OkStatus();
  if (wait) {
    PrintRun(run, std::cout);
  } else {
    std::cout << run.id() << "\nfollow it with: braid status " << run.id() << " --watch"
              << std::endl;
  }
  return absl::OkStatus();
}

}  // namespace braid
