#include "cli/expert_split_flags.h"

#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "cli/arguments.h"
#include "google/protobuf/descriptor.h"
#include "model/config/expert_split_config.h"

namespace braid {
namespace {

// Returns the gates of CanChooseAmongSplit as words of the command line.
std::vector<std::string> GatesOfSplits() {
  std::vector<std::string> words;
  const google::protobuf::EnumDescriptor& gates = *v1::TokenRouting::Gate_descriptor();
  // The first value means "not set".
  for (int i = 1; i < gates.value_count(); ++i) {
    const auto gate = static_cast<v1::TokenRouting::Gate>(gates.value(i)->number());
    if (CanChooseAmongSplit(gate)) words.push_back(FlagWord(v1::TokenRouting::Gate_Name(gate)));
  }
  return words;
}

// Accepts the choices in any case, also as KEY_MEAN.
CLI::Validator OneOfAnyCase(const std::vector<std::string>& choices) {
  const CLI::Validator known = OneOf(choices);
  return CLI::Validator([known](std::string& text) { return known(FlagWord(EnumName(text))); }, "");
}

CLI::Option* AddGate(CLI::App* command, FieldFlags* fields) {
  const std::vector<std::string> gates = GatesOfSplits();
  return fields->Add(command, "--gate", "gate")
      ->type_name(absl::StrJoin(gates, "|"))
      ->check(OneOfAnyCase(gates));
}

}  // namespace

ExpertSplitFlags AddExpertSplit(CLI::App* command, FieldFlags* fields) {
  return {.experts = fields->Add(command, "--experts", "num_experts"),
          .others = {fields->Add(command, "--split", "method"),
                     fields->Add(command, "--active-experts", "active_experts"),
                     fields->Add(command, "--layers", "layers")->delimiter(','),
                     AddGate(command, fields)}};
}

}  // namespace braid
