// Prepares what `braid finetune` trains on and starts from, on the machine of the command.
#ifndef BRAID_CLI_FINETUNE_DATA_H_
#define BRAID_CLI_FINETUNE_DATA_H_

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/directory_use.h"
#include "braid/v1/conversion.pb.h"
#include "cli/finetune_options.h"
#include "client/session.h"
#include "formats/tokenizer.h"
#include "pipeline/supervised/supervised_plan.h"
#include "runs/starting_point.h"

namespace braid {

// The model to start from and the data to train it on, in memory.
struct FinetuneData {
  // With `split`, the checkpoint before the split and the configuration after it.
  StartingPoint start;
  std::optional<v1::ExpertSplit> split;
  std::string tokenizer_bytes;
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<RecordSource> sources;
  // The chat template that the trained model gets; empty if it keeps what the start has.
  std::string new_template;
  SupervisedSettings settings;
  SupervisedPlan plan;
};

// Finds the model, reads the records and plans the dataset. Errors: those of FindStartingPoint,
// ReadRecordFiles, ReadTaskRecords, ExpertSplitConfig and PlanSupervised; InvalidArgument for
// options that do not fit together or to the model.
absl::StatusOr<FinetuneData> PlanFinetuneData(Session& session, const FinetuneOptions& options);

// Returns `spec` as the launch of a run will resolve it, with the dataset and the start in memory,
// so that nothing is stored for a run that would be refused. Errors: those of ResolveRunSpec.
absl::StatusOr<v1::RunSpec> ResolveFinetuneSpec(const FinetuneOptions& options, v1::RunSpec spec,
                                                const FinetuneData& data);

// What a run reads. No deletion removes it while this exists.
struct FinetuneInputs {
  std::filesystem::path dataset;
  // The model to start from: a run id or a path.
  std::string model;
  std::vector<std::shared_ptr<const DirectoryUse>> uses;
};

// Writes the dataset and the model after its split, unless the store has them from an earlier call.
absl::StatusOr<FinetuneInputs> StoreFinetuneInputs(Session& session, const FinetuneOptions& options,
                                                   const FinetuneData& data);

}  // namespace braid

#endif  // BRAID_CLI_FINETUNE_DATA_H_
