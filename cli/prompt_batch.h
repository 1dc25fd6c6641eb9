// Several prompts, continued and printed in their order.
#ifndef BRAID_CLI_PROMPT_BATCH_H_
#define BRAID_CLI_PROMPT_BATCH_H_

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "braid/v1/generation.pb.h"
#include "cli/generation_client.h"
#include "cli/generation_printer.h"

namespace braid {

struct PromptBatch {
  const std::vector<std::string>& prompts;
  // But for the prompt.
  const v1::GenerateRequest& request;
  // Requests at a time.
  int parallel = 1;
};

// A prompt that cannot be continued is told on `notes`, and the others go on; the result then is
// the first such error. Server and connection that fail end it, as does `out` when it takes no
// more.

// Each prompt with its continuation below a line "==> 3/7 <==", as it is generated where `parallel`
// is 1.
absl::Status ContinueAsText(GenerationClient& client, const PromptBatch& batch,
                            GenerationPrinter printer, std::ostream& out, std::ostream& notes);

// One object a line: index (from 0), prompt, text, num_tokens, tokens_per_second and, when asked
// for, routing, a list of what changed before which token; or index, prompt and error.
absl::Status ContinueAsJson(GenerationClient& client, const PromptBatch& batch, std::ostream& out,
                            std::ostream& notes);

}  // namespace braid

#endif  // BRAID_CLI_PROMPT_BATCH_H_
