// Explains supervised datasets: which examples are in an instance or step, and where they come
// from.
#ifndef BRAID_CLI_EXPLAIN_EXAMPLES_H_
#define BRAID_CLI_EXPLAIN_EXAMPLES_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "client/data_order.h"
#include "client/session.h"

namespace braid {

// A supervised dataset and the data order of a run on it.
struct SupervisedSubject {
  std::filesystem::path dataset_dir;
  DataOrder order;
};

// Returns the supervised dataset that `id` names, a dataset directory, or the id or directory of a
// run on one; nullopt for any other id. Errors: those of GetRun and ReadDatasetInfo.
absl::StatusOr<std::optional<SupervisedSubject>> FindSupervised(Session& session,
                                                                const std::string& id);

// Print the examples of an instance, or of the instances of a step, token by token, or as JSON.
// With `with_steps`, also the steps that train on the instance. Errors: those of
// ReadStoredExamples, Tokenizer::Load and InstancesOfStep.
absl::Status ExplainExamples(const SupervisedSubject& subject, int64_t instance, bool with_steps,
                             bool json, std::ostream& out);
absl::Status ExplainStepOfExamples(const SupervisedSubject& subject, int64_t step, bool json,
                                   std::ostream& out);

// Prints the instance of the example with this place, "FILE:LINE", and with `with_steps` the steps
// that train on it, or the domain of a held-out one. NOT_FOUND, with similar places, for an unknown
// one.
absl::Status ExplainPlace(const SupervisedSubject& subject, const std::string& place,
                          bool with_steps, bool json, std::ostream& out);

}  // namespace braid

#endif  // BRAID_CLI_EXPLAIN_EXAMPLES_H_
