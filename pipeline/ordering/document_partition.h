// Parts of a corpus that hold similar documents, for ordering it part by part.
#ifndef BRAID_PIPELINE_ORDERING_DOCUMENT_PARTITION_H_
#define BRAID_PIPELINE_ORDERING_DOCUMENT_PARTITION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "retrieval/document_vectors.h"
#include "retrieval/parallel_for.h"

namespace braid {

// The parts that CorpusSpec.order_partitions = `asked` means for n documents: 0 is one for
// each 50 million; never more than documents.
int64_t NumOrderPartitions(int64_t asked, int64_t n);

// The part of each document, [n], each < num_partitions. Documents are put into eight
// coarse lists a part (coarse_centroids.h); the lists are laid out in a row, each followed
// by the one of nearest centroid, and the row is cut where parts of about equal numbers
// of documents come out. So neighbouring parts are similar too. The same for any
// number of threads. Errors: those of `check`.
absl::StatusOr<std::vector<uint32_t>> PartitionDocuments(const DocumentVectors& vectors,
                                                         int64_t num_partitions, uint64_t seed,
                                                         const StopCheck& check);

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_DOCUMENT_PARTITION_H_
