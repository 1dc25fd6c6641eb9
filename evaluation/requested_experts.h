// Resolves the settings of experts that a request evaluates models with.
#ifndef BRAID_EVALUATION_REQUESTED_EXPERTS_H_
#define BRAID_EVALUATION_REQUESTED_EXPERTS_H_

#include <google/protobuf/repeated_field.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/evaluation.pb.h"

namespace braid {

// One of the models of a request.
struct NamedModel {
  std::string name;  // as in the request
  v1::ModelConfig config;
};

// Returns OK when numbers of active experts have a meaning for at least one model, whose tokens
// choose experts, or when there are none. InvalidArgument names the router of the first model.
absl::Status CheckExpertsAreChosen(const google::protobuf::RepeatedField<int32_t>& active_experts,
                                   std::span<const NamedModel> models);

// Returns the numbers of active experts that are asked for, without duplicates; none for a model
// whose tokens do not choose experts. InvalidArgument names the model and the number that it cannot
// use (CheckActiveExperts).
absl::StatusOr<std::vector<int>> RequestedExperts(
    const google::protobuf::RepeatedField<int32_t>& active_experts, const NamedModel& model,
    bool has_routing_seed);

// Returns OK when fixed weights have a meaning for at least one model, which merges experts, or
// when there are none. InvalidArgument names the router of the first model.
absl::Status CheckWeightsAreMerged(std::span<const v1::FixedWeights> weights,
                                   std::span<const NamedModel> models);

}  // namespace braid

#endif  // BRAID_EVALUATION_REQUESTED_EXPERTS_H_
