// braid-trainer serve: a model that stays in memory for the process that started it.
#ifndef BRAID_INFERENCE_SERVING_LOOP_H_
#define BRAID_INFERENCE_SERVING_LOOP_H_

#include <filesystem>
#include <functional>

#include "absl/status/status.h"
#include "braid/v1/serving.pb.h"

namespace braid {

struct ServingLoopOptions {
  int num_threads = 0;  // 0: all cores
  // See GenerationTurns.
  bool together = false;
};

// Loads the model at `path` (as LoadedModel::Load, whose errors these are), emits `loaded`, and
// then obeys the v1::ServingCommand of each line that comes from the descriptor, until it
// ends. What is still being sampled then is dropped: nobody is there to read it. A line that is no
// command is InvalidArgument.
absl::Status ServeModel(const std::filesystem::path& path, const ServingLoopOptions& options,
                        int commands, const std::function<void(const v1::ServingReport&)>& emit);

}  // namespace braid

#endif  // BRAID_INFERENCE_SERVING_LOOP_H_
