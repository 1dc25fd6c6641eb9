// Commands of the interactive session of `braid generate`.
#ifndef BRAID_CLIENT_TERMINAL_PROMPT_DIALOGUE_H_
#define BRAID_CLIENT_TERMINAL_PROMPT_DIALOGUE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/generation.pb.h"

namespace braid {

// The action that a line beginning with ':' requests.
enum class DialogueAction { kHelp, kShowSettings, kEnd };

// Parses a command and applies settings to `request`: ":set temperature 0.8", ":routing segment",
// ":seed 3", ":show-routing". InvalidArgument for an unknown command or an invalid value.
absl::StatusOr<DialogueAction> ApplyDialogueCommand(const std::string& line,
                                                    v1::GenerateRequest* request);

// Returns the text of ":help".
std::string DialogueHelp();
// Returns the current settings on one line.
std::string DialogueSettings(const v1::GenerateRequest& request);

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_PROMPT_DIALOGUE_H_
