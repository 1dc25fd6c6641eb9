#include "cli/generation_json.h"

#include <string>
#include <vector>

namespace braid {

nlohmann::json RoutingJson(const v1::GenerateEvent& event) {
  nlohmann::json routing = nlohmann::json::array();
  for (const v1::RoutingMixture& mixture : event.routing()) {
    routing.push_back(
        {{"layer", mixture.layer()},
         {"weights", std::vector<double>(mixture.weights().begin(), mixture.weights().end())},
         {"before_token", mixture.before_token()}});
  }
  return routing;
}

nlohmann::json SourceJson(const v1::ModelSource& source) {
  return {{"checkpoint", source.checkpoint()},
          {"step", source.step()},
          {"newest_step", source.newest_step()},
          {"skipped", std::vector<std::string>(source.skipped().begin(), source.skipped().end())}};
}

nlohmann::json EventJson(const v1::GenerateEvent& event) {
  nlohmann::json json = {{"text", event.text()},
                         {"num_tokens", event.num_tokens()},
                         {"done", event.done()},
                         {"tokens_per_second", event.tokens_per_second()}};
  if (event.routing_size() > 0) json["routing"] = RoutingJson(event);
  if (event.has_source()) json["source"] = SourceJson(event.source());
  return json;
}

}  // namespace braid
