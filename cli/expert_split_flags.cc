#include "cli/expert_split_flags.h"

namespace braid {

ExpertSplitFlags AddExpertSplit(CLI::App* command, FieldFlags* fields) {
  return {.experts = fields->Add(command, "--experts", "num_experts"),
          .others = {fields->Add(command, "--split", "method"),
                     fields->Add(command, "--active-experts", "active_experts"),
                     fields->Add(command, "--layers", "layers")->delimiter(','),
                     fields->Add(command, "--gate", "gate")}};
}

}  // namespace braid
