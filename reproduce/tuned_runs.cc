#include "reproduce/tuned_runs.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "braid/v1/analysis.pb.h"
#include "client/repeatable_request_id.h"
#include "reproduce/tuning_plan.h"

namespace braid {

absl::StatusOr<std::string> TunedRuns::Split(const PlannedRun& run, const v1::Run& base) {
  v1::ConvertRequest request = PlannedSplit(*run.arm.tuning->split, run.seed, base.id());
  // The id of a run is given to another one once the files of the service are deleted.
  const std::string name =
      RepeatableRequestId(absl::StrFormat("%s-%.0f", base.id(), base.created_at()), request);
  const std::filesystem::path output = directory_ / name;
  // Present once the conversion is complete.
  const std::filesystem::path mark = directory_ / absl::StrCat(name, ".done");
  if (std::filesystem::exists(mark) && std::filesystem::exists(output)) return output.string();
  RETURN_IF_ERROR(MakeDirectories(directory_));
  request.set_output_dir(output.string());
  RETURN_IF_ERROR(client_.Convert(request).status());
  RETURN_IF_ERROR(WriteFileAtomically(mark, "\n"));
  board_.Finish("split", absl::StrCat(base.id(), " into experts for ", run.arm.name));
  return output.string();
}

absl::StatusOr<v1::LaunchRunRequest> TunedRuns::RequestOf(const PlannedRun& run,
                                                          const v1::Run& base) {
  std::string model = base.id();
  if (run.arm.tuning->split.has_value()) {
    ASSIGN_OR_RETURN(model, Split(run, base));
  }
  std::string& dataset = datasets_[{run.task, base.id()}];
  if (dataset.empty()) {
    ASSIGN_OR_RETURN(dataset, prepare_(TaskOfRun(*plan_.experiment, run), base.id()));
  }
  v1::LaunchRunRequest request;
  *request.mutable_spec() = TunedRunSpec(plan_, run, model, dataset);
  request.set_request_id(RepeatableRequestId(run.name(), request.spec()));
  return request;
}

}  // namespace braid
