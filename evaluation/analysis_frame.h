// What the analyses of a model share: finding the held-out text, progress, and the last event.
#ifndef BRAID_EVALUATION_ANALYSIS_FRAME_H_
#define BRAID_EVALUATION_ANALYSIS_FRAME_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "runs/model_path.h"

namespace braid {

// Returns the verified dataset of an analysis: `dataset_dir` as requested, or that of the model's
// run. InvalidArgument for a supervised dataset, whose windows hold examples that do not see each
// other. Further errors are those of DatasetOf, VerifyDataset and CheckTokenizer.
absl::StatusOr<std::filesystem::path> AnalyzedDataset(const std::string& dataset_dir,
                                                      const ModelPath& path);

// Emits progress events, whose fields are done and total.
template <class Event>
std::function<void(int64_t done, int64_t total)> EmitProgress(
    const std::function<void(const Event&)>& emit) {
  return [&emit](int64_t done, int64_t total) {
    Event event;
    event.set_done(done);
    event.set_total(total);
    emit(event);
  };
}

// Emits the last event: the result, which lacks model name, step and source, after `total` units.
template <class Event, class Result>
void EmitResult(const std::string& model, const ModelPath& path, int64_t total, Result result,
                const std::function<void(const Event&)>& emit) {
  result.set_model(model);
  result.set_step(path.source.step());
  *result.mutable_source() = path.source;
  Event event;
  event.set_done(total);
  event.set_total(total);
  *event.mutable_result() = std::move(result);
  emit(event);
}

}  // namespace braid

#endif  // BRAID_EVALUATION_ANALYSIS_FRAME_H_
