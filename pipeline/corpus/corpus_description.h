// What is in a corpus before any job: its domains, how much text each has, how many documents are
// long, and what could not be read.
#ifndef BRAID_PIPELINE_CORPUS_CORPUS_DESCRIPTION_H_
#define BRAID_PIPELINE_CORPUS_CORPUS_DESCRIPTION_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/pipeline.pb.h"

namespace braid {

// Told of the bytes of the files read, and to read, at least once a megabyte of text; while
// directories are listed both are 0. An error ends the reading.
using ReadProgress = std::function<absl::Status(int64_t done, int64_t total)>;

// Reads all documents as ingest does, but whole: split_bytes is ignored. In memory: what
// CorpusReader needs, and the names of the domains.
// Errors: INVALID_ARGUMENT for settings out of range and for more than 16384 domains; those of
// CorpusReader and of `progress`.
absl::StatusOr<v1::CorpusDescription> DescribeCorpus(const v1::DescribeCorpusRequest& request,
                                                     const ReadProgress& progress);

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_CORPUS_DESCRIPTION_H_
