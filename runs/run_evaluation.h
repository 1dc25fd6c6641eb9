// Reads the results of a run's evaluation from its directory.
#ifndef BRAID_RUNS_RUN_EVALUATION_H_
#define BRAID_RUNS_RUN_EVALUATION_H_

#include <filesystem>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "braid/v1/evaluation.pb.h"
#include "runs/run_directory.h"

namespace braid {

// Returns the content of a file; empty when it does not exist.
absl::StatusOr<std::string> ReadIfPresent(const std::filesystem::path& path);

// Parses a stored result: a message as JSON, sealed (base/sealed_text.h). Unknown fields are
// ignored. DataLoss names the file.
absl::Status ParseKeptResult(const std::string& text, const std::filesystem::path& path,
                             google::protobuf::Message* result);

// Returns the content of evaluation.json; absent when it is missing or empty. DataLoss names a
// damaged file.
absl::StatusOr<std::optional<v1::Evaluation>> ReadEvaluation(const RunDirectory& run);

// File of a run with its evaluations by number of active experts: an EvaluationResult.
inline constexpr char kActiveExpertsFile[] = "active_experts.json";

// Returns the content of kActiveExpertsFile, without evaluations when it is missing. DataLoss names
// a damaged file.
absl::StatusOr<v1::EvaluationResult> ReadActiveExperts(const RunDirectory& run);

}  // namespace braid

#endif  // BRAID_RUNS_RUN_EVALUATION_H_
