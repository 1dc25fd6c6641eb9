// The tasks of whose examples a share was trained on, because they have no training file: a part of
// supervised.json, the description of how a supervised dataset was made (docs/formats/dataset.md).
// Evaluation leaves that share out (evaluation/tasks/training_share.h).
#ifndef BRAID_FORMATS_TASK_SHARES_H_
#define BRAID_FORMATS_TASK_SHARES_H_

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace braid {

// The name of the description, beside dataset.json.
inline constexpr char kSupervisedReportName[] = "supervised.json";

struct TaskShare {
  std::string task;
  double share = 0;  // above 0 and less than 1
};

// Adds the shares to the description; nothing if there are none.
void PutTaskShares(const std::vector<TaskShare>& shares, nlohmann::json* report);

// Reads the shares of a dataset; none if it has no description. Errors: DATA_LOSS, which names the
// file, for a malformed one.
absl::StatusOr<std::vector<TaskShare>> ReadTaskShares(const std::filesystem::path& dataset_dir);

}  // namespace braid

#endif  // BRAID_FORMATS_TASK_SHARES_H_
