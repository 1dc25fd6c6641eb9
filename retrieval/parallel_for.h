// Data parallelism of this folder: one number of threads, and loops over
// blocks of an index range.
#ifndef BRAID_RETRIEVAL_PARALLEL_FOR_H_
#define BRAID_RETRIEVAL_PARALLEL_FOR_H_

#include <atomic>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"

namespace braid {

// Threads that embedding and search use from now on, in the whole process,
// BLAS included; 0 means all cores, the default. Changes no result.
void SetRetrievalThreads(int num_threads);
int RetrievalThreads();

// Calls body(begin, end) for disjoint blocks of at most `grain` indices that
// cover [0, n), from up to RetrievalThreads() threads; returns when all are
// done. Requires: grain > 0, and a body that does not throw.
void ParallelFor(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

// Asked ten times a second whether to go on; what is not OK ends the work and
// is what the work returns. May be null: never stop.
using StopCheck = std::function<absl::Status()>;

// As ParallelFor, for blocks that take long. The calling thread does nothing but
// ask `check`; once that fails, `stopping` is true, blocks not yet begun are left
// out and running ones should return early. What the body throws is thrown here.
using StoppableBody =
    std::function<void(int64_t begin, int64_t end, const std::atomic<bool>& stopping)>;
absl::Status ParallelForUntil(int64_t n, int64_t grain, const StopCheck& check,
                              const StoppableBody& body);
// The same from up to `num_threads` threads, for bodies that mostly wait.
absl::Status ParallelForUntil(int64_t n, int64_t grain, const StopCheck& check,
                              const StoppableBody& body, int64_t num_threads);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_PARALLEL_FOR_H_
