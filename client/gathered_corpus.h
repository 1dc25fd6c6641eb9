// The text of this machine as a corpus, gathered by the Python script gather_text.py.
#ifndef BRAID_CLIENT_GATHERED_CORPUS_H_
#define BRAID_CLIENT_GATHERED_CORPUS_H_

#include <cstdint>
#include <filesystem>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/terminal/progress_board.h"

namespace braid {

struct GatherOptions {
  // Bytes of text to gather.
  int64_t target_bytes = int64_t{24} << 20;
  // Fewer bytes than this are an error.
  int64_t min_bytes = 20'000'000;
  // Documents are cut to at most this many bytes; 0 keeps files whole.
  int64_t split_bytes = 0;
};

// Returns the path of gather_text.py: deploy/ of the source tree for a program in build/bin, or
// ../share/braid relative to the directory of the program. NotFound with both paths when it is in
// neither place.
absl::StatusOr<std::filesystem::path> FindGatherScript();

// Writes the text of this machine to `output_jsonl` as JSON lines, unless the file exists, and
// reports progress and the result on the row "gather". The file appears complete or not at all; of
// several calls at a time, each writes a file of its own (base/staged_output.h), and the last one
// replaces the others, which are equal. FailedPrecondition without python3 or with too little text,
// Cancelled on Ctrl-C.
absl::Status GatherOnce(const GatherOptions& options, const std::filesystem::path& output_jsonl,
                        ProgressBoard& board);

}  // namespace braid

#endif  // BRAID_CLIENT_GATHERED_CORPUS_H_
