// The flags of an ExpertSplit, which several commands have.
#ifndef BRAID_CLI_EXPERT_SPLIT_FLAGS_H_
#define BRAID_CLI_EXPERT_SPLIT_FLAGS_H_

#include <CLI/CLI.hpp>
#include <vector>

#include "cli/field_flags.h"

namespace braid {

struct ExpertSplitFlags {
  CLI::Option* experts = nullptr;
  // --split, --active-experts, --layers and --gate.
  std::vector<CLI::Option*> others;
};

// Adds the flags to `command`. `fields` is that of braid.v1.ExpertSplit and must outlive parsing.
ExpertSplitFlags AddExpertSplit(CLI::App* command, FieldFlags* fields);

}  // namespace braid

#endif  // BRAID_CLI_EXPERT_SPLIT_FLAGS_H_
