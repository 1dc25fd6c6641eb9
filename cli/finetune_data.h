// Prepares the supervised dataset of `braid finetune`, on the machine of the command.
#ifndef BRAID_CLI_FINETUNE_DATA_H_
#define BRAID_CLI_FINETUNE_DATA_H_

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/finetune_options.h"
#include "client/session.h"
#include "formats/tokenizer.h"
#include "pipeline/supervised/supervised_plan.h"
#include "runs/starting_point.h"

namespace braid {

// The model to start from and the data to train it on, in memory.
struct FinetuneData {
  StartingPoint start;
  std::string tokenizer_bytes;
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<RecordSource> sources;
  SupervisedSettings settings;
  SupervisedPlan plan;
};

// Finds the model, reads the records and plans the dataset. Errors: those of FindStartingPoint,
// ReadRecordFiles, ReadTaskRecords and PlanSupervised; InvalidArgument for options that do not fit
// together or to the model.
absl::StatusOr<FinetuneData> PlanFinetuneData(Session& session, const FinetuneOptions& options);

// Writes the dataset, unless the store has it, and returns its directory.
absl::StatusOr<std::filesystem::path> StoreFinetuneData(const Session& session,
                                                        const FinetuneOptions& options,
                                                        const FinetuneData& data);

}  // namespace braid

#endif  // BRAID_CLI_FINETUNE_DATA_H_
