// This machine's own text as a corpus, for who has none at hand.
#ifndef BRAID_CLIENT_GATHERED_CORPUS_H_
#define BRAID_CLIENT_GATHERED_CORPUS_H_

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "client/terminal/progress_board.h"
#include "pipeline/corpus/machine_corpus.h"

namespace braid {

// "61,093 documents, 24.2 MB of this machine's text in 10 domains".
std::string GatheredText(const MachineCorpusSummary& summary);

// GatherMachineCorpus, unless the file is there already.
absl::Status GatherOnce(const MachineCorpusOptions& options,
                        const std::filesystem::path& output_jsonl, ProgressBoard& board);

}  // namespace braid

#endif  // BRAID_CLIENT_GATHERED_CORPUS_H_
