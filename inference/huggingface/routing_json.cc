#include "inference/huggingface/routing_json.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace braid {
namespace {

int32_t RoutingCount(JsonFields* fields, const char* field) {
  return static_cast<int32_t>(fields->Integer(field));
}

// Training settings, such as noise, are not part of an exported model.
void AddTokenRouting(const v1::TokenRouting& token, nlohmann::ordered_json* json) {
  (*json)["gate"] = v1::TokenRouting::Gate_Name(token.gate());
  (*json)["combine_weights"] = v1::TokenRouting::CombineWeights_Name(token.combine_weights());
  (*json)["selection"] = v1::TokenRouting::Selection_Name(token.selection());
  (*json)["num_experts_per_tok"] = token.active_experts();
  (*json)["moe_intermediate_size"] = token.expert_d_ff();
  if (token.has_projection_width()) (*json)["projection_width"] = token.projection_width();
}

template <class Enum>
Enum Named(JsonFields* fields, const char* field, bool (*parse)(const std::string&, Enum*),
           const std::string& (*name)(Enum), Enum fallback) {
  Enum value = fallback;
  const std::string text = fields->Text(field, name(fallback));
  fields->Require(parse(text, &value), field, absl::StrCat("a name such as ", name(fallback)));
  return value;
}

void ReadTokenRouting(JsonFields* fields, v1::TokenRouting* token) {
  const auto parse_gate = [](const std::string& text, v1::TokenRouting::Gate* value) {
    return v1::TokenRouting::Gate_Parse(text, value);
  };
  const auto parse_weights = [](const std::string& text, v1::TokenRouting::CombineWeights* value) {
    return v1::TokenRouting::CombineWeights_Parse(text, value);
  };
  const auto parse_selection = [](const std::string& text, v1::TokenRouting::Selection* value) {
    return v1::TokenRouting::Selection_Parse(text, value);
  };
  token->set_gate(Named<v1::TokenRouting::Gate>(fields, "gate", parse_gate,
                                                v1::TokenRouting_Gate_Name<v1::TokenRouting::Gate>,
                                                v1::TokenRouting::LINEAR));
  token->set_combine_weights(Named<v1::TokenRouting::CombineWeights>(
      fields, "combine_weights", parse_weights,
      v1::TokenRouting_CombineWeights_Name<v1::TokenRouting::CombineWeights>,
      v1::TokenRouting::SOFTMAX_OF_CHOSEN));
  token->set_selection(Named<v1::TokenRouting::Selection>(
      fields, "selection", parse_selection,
      v1::TokenRouting_Selection_Name<v1::TokenRouting::Selection>, v1::TokenRouting::TOP));
  token->set_active_experts(RoutingCount(fields, "num_experts_per_tok"));
  token->set_expert_d_ff(RoutingCount(fields, "moe_intermediate_size"));
  if (fields->Has("projection_width")) {
    token->set_projection_width(RoutingCount(fields, "projection_width"));
  }
}

}  // namespace

void AddRoutingJson(const v1::RoutingConfig& routing, nlohmann::ordered_json* json) {
  // Classes of modeling_braid.py, which transformers loads with trust_remote_code.
  (*json)["auto_map"] = {{"AutoConfig", "modeling_braid.BraidSoftMoeConfig"},
                         {"AutoModelForCausalLM", "modeling_braid.BraidSoftMoeForCausalLM"}};
  (*json)["router"] = v1::Router_Name(routing.router());
  (*json)["num_experts"] = routing.num_experts();
  (*json)["segment_length"] = routing.segment_length();
  (*json)["first_segment"] = v1::FirstSegment_Name(routing.first_segment());
  (*json)["router_input"] = v1::RouterInput_Name(routing.router_input());
  if (routing.router() == v1::TOKEN_CHOICE) AddTokenRouting(routing.token(), json);
  if (routing.moe_layers().empty()) return;
  (*json)["moe_layers"] =
      std::vector<int32_t>(routing.moe_layers().begin(), routing.moe_layers().end());
}

void ReadRoutingJson(JsonFields* fields, v1::RoutingConfig* routing) {
  routing->set_num_experts(RoutingCount(fields, "num_experts"));
  routing->set_segment_length(RoutingCount(fields, "segment_length"));
  const auto parse_router = [](const std::string& text, v1::Router* value) {
    return v1::Router_Parse(text, value);
  };
  const auto parse_first = [](const std::string& text, v1::FirstSegment* value) {
    return v1::FirstSegment_Parse(text, value);
  };
  const auto parse_input = [](const std::string& text, v1::RouterInput* value) {
    return v1::RouterInput_Parse(text, value);
  };
  routing->set_router(Named<v1::Router>(fields, "router", parse_router, v1::Router_Name<v1::Router>,
                                        v1::CAUSAL_SEGMENT));
  routing->set_first_segment(Named<v1::FirstSegment>(fields, "first_segment", parse_first,
                                                     v1::FirstSegment_Name<v1::FirstSegment>,
                                                     v1::SELF_STOP_GRADIENT));
  routing->set_router_input(Named<v1::RouterInput>(fields, "router_input", parse_input,
                                                   v1::RouterInput_Name<v1::RouterInput>,
                                                   v1::NORMALIZED_MEAN));
  if (routing->router() == v1::TOKEN_CHOICE) ReadTokenRouting(fields, routing->mutable_token());
  if (!fields->Has("moe_layers")) return;
  for (const nlohmann::json& layer : (*fields)["moe_layers"]) {
    const bool good = layer.is_number_integer() && layer >= 0 && layer <= INT32_MAX;
    fields->Require(good, "moe_layers", "a list of layer numbers");
    if (good) routing->add_moe_layers(layer.get<int32_t>());
  }
}

}  // namespace braid
