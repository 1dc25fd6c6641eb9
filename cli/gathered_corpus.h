// This machine's own text as a corpus, for who has none at hand.
#ifndef BRAID_CLI_GATHERED_CORPUS_H_
#define BRAID_CLI_GATHERED_CORPUS_H_

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "cli/progress_board.h"
#include "pipeline/machine_corpus.h"

namespace braid {

// "61,093 documents, 24.2 MB of this machine's text in 10 domains".
std::string GatheredText(const MachineCorpusSummary& summary);

// GatherMachineCorpus, unless the file is there already.
absl::Status GatherOnce(const MachineCorpusOptions& options,
                        const std::filesystem::path& output_jsonl, ProgressBoard& board);

}  // namespace braid

#endif  // BRAID_CLI_GATHERED_CORPUS_H_
