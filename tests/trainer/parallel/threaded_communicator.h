// Ranks as threads of one process. Sums are taken in rank order, so results do not depend on timing.
#ifndef BRAID_TESTS_TRAINER_PARALLEL_THREADED_COMMUNICATOR_H_
#define BRAID_TESTS_TRAINER_PARALLEL_THREADED_COMMUNICATOR_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "trainer/parallel/communicator.h"

namespace braid {

// Runs `body` once per rank, each on its own thread, and returns the status of each rank. A rank
// that returns an error aborts the others, whose pending and later calls return Aborted.
std::vector<absl::Status> RunThreadedRanks(int world_size,
                                           const std::function<absl::Status(Communicator&)>& body);

}  // namespace braid

#endif  // BRAID_TESTS_TRAINER_PARALLEL_THREADED_COMMUNICATOR_H_
