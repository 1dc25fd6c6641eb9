// A record, or the rest of a file, that gave no document.
#ifndef BRAID_PIPELINE_CORPUS_REJECT_H_
#define BRAID_PIPELINE_CORPUS_REJECT_H_

#include <cstdint>
#include <string>

namespace braid {

struct Reject {
  std::string file;
  // Byte of the decompressed file at which the record starts. For "damaged" and "decompression
  // bomb", at which the first record starts that could not be read; the rest of the file is lost.
  int64_t offset = 0;
  // One of the list in docs/corpus.md: "invalid json", "damaged", "hidden", ...
  std::string reason;
  // What a reader of the file found wrong; mostly empty.
  std::string detail = {};
};

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_REJECT_H_
