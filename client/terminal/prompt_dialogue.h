// braid generate at a terminal: a prompt, its continuation, and again.
#ifndef BRAID_CLIENT_TERMINAL_PROMPT_DIALOGUE_H_
#define BRAID_CLIENT_TERMINAL_PROMPT_DIALOGUE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/generation.pb.h"

namespace braid {

// What a line that begins with ':' asks for.
enum class DialogueAction { kContinue, kHelp, kShowSettings, kEnd };

// Carries out the settings among them: ":set temperature 0.8", ":routing segment", ":seed 3",
// ":show-routing". InvalidArgument for what it is not, with what was expected.
absl::StatusOr<DialogueAction> ApplyDialogueCommand(const std::string& line,
                                                    v1::GenerateRequest* request);

// ":help".
std::string DialogueHelp();
// The settings in use, one line.
std::string DialogueSettings(const v1::GenerateRequest& request);

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_PROMPT_DIALOGUE_H_
