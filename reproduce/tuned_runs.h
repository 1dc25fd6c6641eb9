// Prepares the fine-tuning runs of an experiment: converts the models that they start from and has
// the data of their tasks prepared.
#ifndef BRAID_REPRODUCE_TUNED_RUNS_H_
#define BRAID_REPRODUCE_TUNED_RUNS_H_

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "client/terminal/progress_board.h"
#include "reproduce/reproduction_plan.h"
#include "rpc/analysis_client.h"

namespace braid {

// Prepares the training examples of a task, or its share of them, for the tokenizer of a run's
// model and returns the directory of the supervised dataset. The same arguments give the same
// directory.
using PrepareTask =
    std::function<absl::StatusOr<std::string>(const TunedTask& task, const std::string& run_id)>;

class TunedRuns {
 public:
  // Converted models are written to `directory`. All references must outlive this object.
  TunedRuns(const ReproductionPlan& plan, AnalysisClient client, const PrepareTask& prepare,
            std::filesystem::path directory, ProgressBoard& board)
      : plan_(plan),
        client_(std::move(client)),
        prepare_(prepare),
        directory_(std::move(directory)),
        board_(board) {}

  // Returns the training of a fine-tuning run that starts from the model of `base`, a run that
  // succeeded. A conversion that an earlier call or command completed is reused. Errors are those
  // of the conversion and of `prepare`.
  absl::StatusOr<v1::LaunchRunRequest> RequestOf(const PlannedRun& run, const v1::Run& base);

 private:
  absl::StatusOr<std::string> Split(const PlannedRun& run, const v1::Run& base);

  const ReproductionPlan& plan_;
  AnalysisClient client_;
  const PrepareTask& prepare_;
  const std::filesystem::path directory_;
  ProgressBoard& board_;
  // Dataset directories by task and base run.
  std::map<std::pair<std::string, std::string>, std::string> datasets_;
};

}  // namespace braid

#endif  // BRAID_REPRODUCE_TUNED_RUNS_H_
