#include "client/gathered_corpus.h"

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "client/terminal/tables.h"

namespace braid {

std::string GatheredText(const MachineCorpusSummary& summary) {
  return absl::StrFormat("%s documents, %.1f MB of this machine's text in %d domains",
                         WithThousands(summary.num_documents),
                         static_cast<double>(summary.num_bytes) / 1e6,
                         static_cast<int>(summary.domains.size()));
}

absl::Status GatherOnce(const MachineCorpusOptions& options,
                        const std::filesystem::path& output_jsonl, ProgressBoard& board) {
  if (std::filesystem::exists(output_jsonl)) {
    board.Finish("gather", "already done");
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const MachineCorpusSummary summary, GatherMachineCorpus(options, output_jsonl));
  board.Finish("gather", GatheredText(summary));
  return absl::OkStatus();
}

}  // namespace braid
