// Which routings a request asks a model under.
#ifndef BRAID_EVALUATION_INFERENCE_ROUTINGS_H_
#define BRAID_EVALUATION_INFERENCE_ROUTINGS_H_

#include <google/protobuf/repeated_field.h>

#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/analysis.pb.h"

namespace braid {

// Those of a request's field, in its order and each once, INFERENCE_ROUTING_UNSPECIFIED as
// SEGMENT_ROUTING; `otherwise` when it names none. InvalidArgument for a number that is no routing.
absl::StatusOr<std::vector<v1::InferenceRouting>> ResolveRoutings(
    const google::protobuf::RepeatedField<int>& asked,
    const std::vector<v1::InferenceRouting>& otherwise);

}  // namespace braid

#endif  // BRAID_EVALUATION_INFERENCE_ROUTINGS_H_
