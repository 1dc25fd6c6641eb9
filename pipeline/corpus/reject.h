// A record, or the rest of a file, that gives no document.
#ifndef BRAID_PIPELINE_CORPUS_REJECT_H_
#define BRAID_PIPELINE_CORPUS_REJECT_H_

#include <cstdint>
#include <string>

namespace braid {

struct Reject {
  std::string file;
  // The byte of the decompressed file at which the record starts. For "damaged" and "decompression
  // bomb": at which the first unreadable record starts; the rest of the file, or of the
  // row group of a Parquet file, is rejected with it.
  int64_t offset = 0;
  // One of the reasons listed in docs/corpus.md: "invalid json", "damaged", "hidden", ...
  std::string reason;
  // The error of the reader for a damaged file, else "".
  std::string detail = {};
  // The id field of the record; "" when it has none or was not parsed.
  std::string id = {};
};

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_REJECT_H_
