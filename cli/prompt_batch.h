// Generation for several prompts, printed in the order of the prompts.
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
  // The request of every prompt, without the prompt itself.
  const v1::GenerateRequest& request;
  // Maximum number of concurrent requests.
  int parallel = 1;
  // Time before the first retry when the server is full (RESOURCE_EXHAUSTED); doubled for each
  // further retry.
  std::chrono::milliseconds first_pause{100};
};

// Both functions report a prompt that the server rejects (INVALID_ARGUMENT) on `notes` and continue
// with the others; the returned error then has the number of such prompts and the code of the
// first. Any other error, or a failed write to `out`, ends the batch and cancels its open requests.
// While the server is full, requests are retried for two minutes, which is reported once on
// `notes`.

// Prints each prompt and its continuation under a header line "==> 3/7 <==". Text is printed as it
// is generated when `parallel` is 1.
absl::Status ContinueAsText(GenerationClient& client, const PromptBatch& batch,
                            GenerationPrinter printer, std::ostream& out, std::ostream& notes);

// Prints one JSON object per line: index (from 0), prompt, text, source, num_tokens,
// tokens_per_second and, when requested, routing as by RoutingJson; or index, prompt and error.
absl::Status ContinueAsJson(GenerationClient& client, const PromptBatch& batch, std::ostream& out,
                            std::ostream& notes);

}  // namespace braid

#endif  // BRAID_CLI_PROMPT_BATCH_H_
