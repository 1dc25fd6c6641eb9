#include "evaluation/inference_routings.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace braid {

absl::StatusOr<std::vector<v1::InferenceRouting>> ResolveRoutings(
    const google::protobuf::RepeatedField<int>& asked,
    const std::vector<v1::InferenceRouting>& otherwise) {
  std::vector<v1::InferenceRouting> routings;
  for (const int value : asked) {
    if (!v1::InferenceRouting_IsValid(value)) {
      return absl::InvalidArgumentError(
          absl::StrCat("routings: got ", value, ", expected SEGMENT_ROUTING or PROMPT_ROUTING"));
    }
    const auto routing = value == v1::INFERENCE_ROUTING_UNSPECIFIED
                             ? v1::SEGMENT_ROUTING
                             : static_cast<v1::InferenceRouting>(value);
    if (std::ranges::find(routings, routing) == routings.end()) routings.push_back(routing);
  }
  return routings.empty() ? otherwise : routings;
}

}  // namespace braid
