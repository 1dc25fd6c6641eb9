// Events of text generation as JSON.
#ifndef BRAID_CLI_GENERATION_JSON_H_
#define BRAID_CLI_GENERATION_JSON_H_

#include <nlohmann/json.hpp>

#include "braid/v1/generation.pb.h"

namespace braid {

// Returns an event with all of its fields, including zeros; "routing" and "source" only when it has
// some.
nlohmann::json EventJson(const v1::GenerateEvent& event);

// Returns the routing of an event: a list of {"layer", "weights", "before_token"}.
nlohmann::json RoutingJson(const v1::GenerateEvent& event);

// Returns {"checkpoint", "step", "newest_step", "skipped"}; "skipped" is a list of sentences.
nlohmann::json SourceJson(const v1::ModelSource& source);

}  // namespace braid

#endif  // BRAID_CLI_GENERATION_JSON_H_
