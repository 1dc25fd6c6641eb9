// Data parallelism of retrieval: the number of threads, and loops over blocks of an index range.
#ifndef BRAID_RETRIEVAL_PARALLEL_FOR_H_
#define BRAID_RETRIEVAL_PARALLEL_FOR_H_

#include <atomic>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"

namespace braid {

// Sets the number of threads of embedding and search in the whole process, BLAS included; 0: all
// cores, the default. Does not change any result.
void SetRetrievalThreads(int num_threads);
int RetrievalThreads();

// Calls body(begin, end) for disjoint blocks of at most `grain` indices that cover [0, n), from up
// to RetrievalThreads() threads; returns when all are done. The first exception of the body skips
// the blocks not yet started and is rethrown. Requires grain > 0.
void ParallelFor(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

// Called ten times a second during long work; its first error ends the work and is returned by it.
// Null: never stop.
using StopCheck = std::function<absl::Status()>;

// Works as ParallelFor for blocks that take long. The calling thread only calls `check`. After an
// error `stopping` is true: blocks not yet started are skipped and running ones should return
// early. The first exception of the body is rethrown.
using StoppableBody =
    std::function<void(int64_t begin, int64_t end, const std::atomic<bool>& stopping)>;
absl::Status ParallelForUntil(int64_t n, int64_t grain, const StopCheck& check,
                              const StoppableBody& body);
// Works the same from up to `num_threads` threads, for bodies that mostly wait.
absl::Status ParallelForUntil(int64_t n, int64_t grain, const StopCheck& check,
                              const StoppableBody& body, int64_t num_threads);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_PARALLEL_FOR_H_
