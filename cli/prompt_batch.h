// Several prompts, continued and printed in their order.
#ifndef BRAID_CLI_PROMPT_BATCH_H_
#define BRAID_CLI_PROMPT_BATCH_H_

#include <chrono>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "braid/v1/generation.pb.h"
#include "client/terminal/generation_printer.h"
#include "rpc/generation_client.h"

namespace braid {

struct PromptBatch {
  const std::vector<std::string>& prompts;
  // But for the prompt.
  const v1::GenerateRequest& request;
  // Requests at a time.
  int parallel = 1;
  // Before a server that is full (RESOURCE_EXHAUSTED) is asked again; longer each time.
  std::chrono::milliseconds first_pause{100};
};

// A prompt that cannot be continued is told on `notes`, and the others go on; the result then says
// how many there were, with the code of the first. Server and connection that fail end it, as does
// `out` when it takes no more; a server that is full is asked again for two minutes, which is told
// on `notes`. Requests that are under way at an early end are cancelled.

// Each prompt with its continuation below a line "==> 3/7 <==", as it is generated where `parallel`
// is 1.
absl::Status ContinueAsText(GenerationClient& client, const PromptBatch& batch,
                            GenerationPrinter printer, std::ostream& out, std::ostream& notes);

// One object a line: index (from 0), prompt, text, num_tokens, tokens_per_second and, when asked
// for, routing, as RoutingJson; or index, prompt and error.
absl::Status ContinueAsJson(GenerationClient& client, const PromptBatch& batch, std::ostream& out,
                            std::ostream& notes);

}  // namespace braid

#endif  // BRAID_CLI_PROMPT_BATCH_H_
