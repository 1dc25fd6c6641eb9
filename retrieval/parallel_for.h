// Data parallelism of this folder: one number of threads, and a loop over
// blocks of an index range.
#ifndef BRAID_RETRIEVAL_PARALLEL_FOR_H_
#define BRAID_RETRIEVAL_PARALLEL_FOR_H_

#include <cstdint>
#include <functional>

namespace braid {

// Threads that embedding and search use from now on, in the whole process,
// BLAS included; 0 means all cores, the default. Changes no result.
void SetRetrievalThreads(int num_threads);
int RetrievalThreads();

// Calls body(begin, end) for disjoint blocks of at most `grain` indices that
// cover [0, n), from up to RetrievalThreads() threads; returns when all are
// done. Requires: grain > 0, and a body that does not throw.
void ParallelFor(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_PARALLEL_FOR_H_
