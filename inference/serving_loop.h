// braid-trainer serve: keeps a model in memory and answers the process that started it.
#ifndef BRAID_INFERENCE_SERVING_LOOP_H_
#define BRAID_INFERENCE_SERVING_LOOP_H_

#include <filesystem>
#include <functional>

#include "absl/status/status.h"
#include "braid/v1/serving.pb.h"

namespace braid {

struct ServingLoopOptions {
  int num_threads = 0;  // 0 means all cores
  // See GenerationTurns.
  bool together = false;
};

// Loads the model at `path` (errors of LoadedModel::Load), emits `loaded`, then executes the
// v1::ServingCommand on each line read from the descriptor `commands`, until its end. Generations
// still in progress then are dropped, because no process reads their results. InvalidArgument for a
// malformed line.
absl::Status ServeModel(const std::filesystem::path& path, const ServingLoopOptions& options,
                        int commands, const std::function<void(const v1::ServingReport&)>& emit);

}  // namespace braid

#endif  // BRAID_INFERENCE_SERVING_LOOP_H_
