// Describes a corpus without running a job: its domains and their sizes, the number of long
// documents, and the records that cannot be read.
#ifndef BRAID_PIPELINE_CORPUS_CORPUS_DESCRIPTION_H_
#define BRAID_PIPELINE_CORPUS_CORPUS_DESCRIPTION_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/corpus.pb.h"

namespace braid {

// A callback that receives the bytes of the files read so far and in total, at least once per
// megabyte of text. Both are 0 while directories are listed. An error that it returns ends the
// call.
using ReadProgress = std::function<absl::Status(int64_t done, int64_t total)>;

// Reads all documents as the stage ingest does, but without splitting them (split_bytes is
// ignored). Memory: that of CorpusReader, plus the names of the domains. Errors: INVALID_ARGUMENT
// for settings out of range and for more than 16384 domains; those of CorpusReader and of
// `progress`.
absl::StatusOr<v1::CorpusDescription> DescribeCorpus(const v1::DescribeCorpusRequest& request,
                                                     const ReadProgress& progress);

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_CORPUS_DESCRIPTION_H_
