// Generated texts as JSON.
#ifndef BRAID_CLI_GENERATION_JSON_H_
#define BRAID_CLI_GENERATION_JSON_H_

#include <nlohmann/json.hpp>

#include "braid/v1/generation.pb.h"

namespace braid {

// GenerateEvent with every field, those that are 0 too; "routing" where there is some.
nlohmann::json EventJson(const v1::GenerateEvent& event);

// Its routing: a list of {"layer", "weights", "before_token"}.
nlohmann::json RoutingJson(const v1::GenerateEvent& event);

}  // namespace braid

#endif  // BRAID_CLI_GENERATION_JSON_H_
