#include "trainer/training_state.h"

#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "formats/status_macros.h"
#include "google/protobuf/util/message_differencer.h"
#include "trainer/model/upcycling.h"
#include "trainer/model_config.h"
#include "trainer/run_spec.h"

namespace braid {
namespace {

// Where a parameter lies in the model's buffer, and in its moments'.
struct Extent {
  size_t offset;
  size_t size;
};

Extent ExtentOf(LanguageModel& model, const Parameter& parameter) {
  return {static_cast<size_t>(parameter.value.data() - model.values().data()),
          parameter.value.size()};
}

TrainingState WithZeroMoments(std::unique_ptr<LanguageModel> model) {
  TrainingState state;
  const size_t size = model->values().size();
  state.model = std::move(model);
  state.m.assign(size, 0.0f);
  state.v.assign(size, 0.0f);
  return state;
}

std::vector<CheckpointTensor> WeightsOf(LanguageModel& model) {
  std::vector<CheckpointTensor> tensors;
  for (Parameter& p : model.parameters()) tensors.push_back({p.name, p.shape, p.value});
  return tensors;
}

CheckpointMoments MomentsOf(TrainingState& state) {
  return {.range = {0, state.m.size()}, .m = state.m, .v = state.v};
}

void CopyMoments(const TrainingState& dense, Extent from, int copies, TrainingState* moe,
                 Extent to) {
  const float scale = 1.0f / static_cast<float>(copies);
  for (size_t i = 0; i < to.size; ++i) {
    const size_t source = from.offset + i % from.size;
    moe->m[to.offset + i] = dense.m[source] * scale;
    moe->v[to.offset + i] = dense.v[source] * scale * scale;
  }
}

bool SameModel(const v1::ModelConfig& a, const v1::ModelConfig& b) {
  google::protobuf::util::MessageDifferencer differencer;
  differencer.IgnoreField(v1::ModelConfig::descriptor()->FindFieldByName("preset"));
  return differencer.Compare(a, b);
}

absl::Status CheckBelongs(const std::filesystem::path& checkpoint, const CheckpointState& state,
                          const v1::RunSpec& spec, const std::string& dataset_key) {
  if (state.dataset_key != dataset_key) {
    return absl::FailedPreconditionError(absl::StrCat(
        checkpoint.string(), " was trained on data with key ", state.dataset_key, ", but ",
        spec.dataset_dir(), " has key ", dataset_key, "; start a new run for other data"));
  }
  const bool dense = DenseSteps(spec) > 0 && !state.upcycled;
  const v1::ModelConfig expected = dense ? DenseCounterpart(spec.model()) : spec.model();
  if (!SameModel(state.model, expected)) {
    return absl::FailedPreconditionError(
        absl::StrCat(checkpoint.string(), " holds the model\n", state.model.DebugString(),
                     "but run.textproto asks for\n", expected.DebugString(),
                     "start a new run for another model"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TrainingState> InitialState(const v1::RunSpec& spec) {
  const bool dense_first = DenseSteps(spec) > 0;
  ASSIGN_OR_RETURN(
      auto model, LanguageModel::Create(dense_first ? DenseCounterpart(spec.model()) : spec.model(),
                                        spec.seed()));
  TrainingState state = WithZeroMoments(std::move(model));
  state.upcycled = !dense_first && UsesExperts(spec.model());
  return state;
}

absl::StatusOr<TrainingState> UpcycledState(TrainingState dense, const v1::RunSpec& spec) {
  ASSIGN_OR_RETURN(auto model, Upcycle(*dense.model, spec.model(), spec.seed()));
  const std::vector<ParameterOrigin> origins = UpcycledOrigins(*dense.model, *model);
  TrainingState state = WithZeroMoments(std::move(model));
  for (size_t i = 0; i < origins.size(); ++i) {
    if (origins[i].dense_parameter < 0) continue;
    const Parameter& source = dense.model->parameters()[origins[i].dense_parameter];
    CopyMoments(dense, ExtentOf(*dense.model, source), origins[i].copies, &state,
                ExtentOf(*state.model, state.model->parameters()[i]));
  }
  state.step = dense.step;
  state.num_tokens = dense.num_tokens;
  state.upcycled = true;
  return state;
}

CheckpointSource SourceOf(TrainingState& state, const std::string& dataset_key) {
  CheckpointSource source;
  source.state.step = state.step;
  source.state.num_tokens = state.num_tokens;
  source.state.upcycled = state.upcycled;
  source.state.dataset_key = dataset_key;
  source.state.model = state.model->config();
  source.weights = WeightsOf(*state.model);
  source.moments = MomentsOf(state);
  return source;
}

absl::StatusOr<TrainingState> RestoreState(const std::filesystem::path& checkpoint,
                                           const v1::RunSpec& spec,
                                           const std::string& dataset_key) {
  ASSIGN_OR_RETURN(const CheckpointState record, ReadCheckpointState(checkpoint));
  RETURN_IF_ERROR(CheckBelongs(checkpoint, record, spec, dataset_key));
  ASSIGN_OR_RETURN(auto model, LanguageModel::Create(record.model, spec.seed()));
  TrainingState state = WithZeroMoments(std::move(model));
  const std::vector<CheckpointTensor> weights = WeightsOf(*state.model);
  RETURN_IF_ERROR(ReadWeights(checkpoint, record, weights));
  RETURN_IF_ERROR(ReadMoments(checkpoint, record, weights, MomentsOf(state)));
  state.step = record.step;
  state.num_tokens = record.num_tokens;
  state.upcycled = record.upcycled;
  return state;
}

absl::StatusOr<std::unique_ptr<LanguageModel>> LoadModel(const std::filesystem::path& checkpoint) {
  RETURN_IF_ERROR(VerifyCheckpoint(checkpoint));
  ASSIGN_OR_RETURN(const CheckpointState record, ReadCheckpointState(checkpoint));
  ASSIGN_OR_RETURN(auto model, LanguageModel::Create(record.model, /*seed=*/0));
  RETURN_IF_ERROR(ReadWeights(checkpoint, record, WeightsOf(*model)));
  return model;
}

}  // namespace braid
