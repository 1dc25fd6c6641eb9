// Resolves the routings under which a request evaluates a model.
#ifndef BRAID_EVALUATION_INFERENCE_ROUTINGS_H_
#define BRAID_EVALUATION_INFERENCE_ROUTINGS_H_

#include <google/protobuf/repeated_field.h>

#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/model.pb.h"

namespace braid {

// Returns the values of a request field in their order, without duplicates, with
// INFERENCE_ROUTING_UNSPECIFIED as SEGMENT_ROUTING; `otherwise` when the field is empty.
// InvalidArgument for an unknown value.
absl::StatusOr<std::vector<v1::InferenceRouting>> ResolveRoutings(
    const google::protobuf::RepeatedField<int>& asked,
    const std::vector<v1::InferenceRouting>& otherwise);

}  // namespace braid

#endif  // BRAID_EVALUATION_INFERENCE_ROUTINGS_H_
