// The routing of experts in the config.json of a braid_soft_moe. docs/formats/export.md lists the
// fields.
#ifndef BRAID_INFERENCE_HUGGINGFACE_ROUTING_JSON_H_
#define BRAID_INFERENCE_HUGGINGFACE_ROUTING_JSON_H_

#include <nlohmann/json.hpp>

#include "base/json_fields.h"
#include "braid/v1/model.pb.h"

namespace braid {

// Adds the fields of a model with experts.
void AddRoutingJson(const v1::RoutingConfig& routing, nlohmann::ordered_json* json);

// Reads them; errors are those of `fields`.
void ReadRoutingJson(JsonFields* fields, v1::RoutingConfig* routing);

}  // namespace braid

#endif  // BRAID_INFERENCE_HUGGINGFACE_ROUTING_JSON_H_
