#include "trainer/training_state.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "google/protobuf/util/message_differencer.h"
#include "model/config/finetuning_config.h"
#include "model/config/model_config.h"
#include "model/upcycling.h"
#include "runs/branch.h"
#include "runs/run_spec.h"
#include "trainer/checkpoint_weights.h"
#include "trainer/checkpoint_writer.h"
#include "trainer/starting_model.h"

namespace braid {
namespace {

// The position of a parameter in the model's buffer, and in this rank's moments.
struct Extent {
  size_t offset;
  size_t size;
};

Extent ExtentOf(LanguageModel& model, const Parameter& parameter) {
  return {static_cast<size_t>(parameter.gradient.data() - model.gradients().data()),
          parameter.value.size()};
}

TrainingState WithZeroMoments(std::unique_ptr<LanguageModel> model, const v1::RunSpec& spec,
                              int rank) {
  TrainingState state;
  state.moments = MomentShard(spec, model->trained_values().size(), rank);
  state.sharded = spec.optimizer_sharding() != v1::REPLICATED && spec.world_size() > 1;
  state.model = std::move(model);
  state.m.assign(state.moments.size(), 0.0f);
  state.v.assign(state.moments.size(), 0.0f);
  return state;
}

// Returns one moment, or the average, of all trained values of the model, gathered from all ranks
// where it is sharded.
absl::StatusOr<std::vector<float>> Whole(const TrainingState& state, const std::vector<float>& part,
                                         Communicator& communicator) {
  if (!state.sharded) return part;
  std::vector<float> whole(state.model->trained_values().size());
  std::copy(part.begin(), part.end(), whole.begin() + state.moments.begin);
  RETURN_IF_ERROR(communicator.AllGatherShards(whole));
  return whole;
}

// Returns the parameters that have a gradient, or those that have none, in the order of values().
std::vector<CheckpointTensor> WeightsOf(LanguageModel& model, bool trained) {
  std::vector<CheckpointTensor> tensors;
  for (Parameter& p : model.parameters()) {
    if (p.gradient.empty() != trained) tensors.push_back({p.name, p.shape, p.value});
  }
  return tensors;
}

CheckpointMoments MomentsOf(TrainingState& state) {
  return {.range = state.moments, .m = state.m, .v = state.v, .average = state.average};
}

// Copies the values of a dense parameter, times `scale`, to the copies of it in an expert model,
// for the range that this rank keeps.
void CopyScaled(std::span<const float> dense, float scale, Extent to, Shard range,
                std::span<float> kept) {
  const size_t begin = std::max(to.offset, range.begin);
  const size_t end = std::min(to.offset + to.size, range.end);
  for (size_t i = begin; i < end; ++i) {
    kept[i - range.begin] = dense[(i - to.offset) % dense.size()] * scale;
  }
}

// Begins the average of a run that keeps one with the weights.
void BeginAverage(const v1::RunSpec& spec, TrainingState* state) {
  if (!(spec.optimizer().ema_decay() > 0)) return;
  const auto own =
      state->model->trained_values().subspan(state->moments.begin, state->moments.size());
  state->average.assign(own.begin(), own.end());
}

// The number of active experts of a run that grows it is that of the checkpoint's step.
bool SameModel(const v1::ModelConfig& a, const v1::ModelConfig& b, bool grows) {
  google::protobuf::util::MessageDifferencer differencer;
  differencer.IgnoreField(v1::ModelConfig::descriptor()->FindFieldByName("preset"));
  if (grows) {
    differencer.IgnoreField(v1::TokenRouting::descriptor()->FindFieldByName("active_experts"));
  }
  return differencer.Compare(a, b);
}

// Returns the settings of a run that trains a part of its parameters, and no settings otherwise.
v1::Finetuning PartsOf(const v1::RunSpec& spec) {
  return IsPartial(spec.finetuning()) ? spec.finetuning() : v1::Finetuning();
}

absl::Status CheckBelongs(const std::filesystem::path& checkpoint, const CheckpointState& state,
                          const v1::RunSpec& spec, const std::string& dataset_key) {
  if (state.dataset_key != dataset_key) {
    return absl::FailedPreconditionError(
        absl::StrCat(checkpoint.string(), " was trained on data with key ", state.dataset_key,
                     ", but ", spec.datasets().empty() ? spec.dataset_dir() : "the mixture",
                     " has key ", dataset_key, "; start a new run for other data"));
  }
  const bool same_parts =
      google::protobuf::util::MessageDifferencer::Equals(state.partial.finetuning(), PartsOf(spec));
  if (!same_parts) {
    return absl::FailedPreconditionError(absl::StrCat(
        checkpoint.string(), " was trained with finetuning { ",
        state.partial.finetuning().ShortDebugString(), " }, but run.textproto asks for { ",
        spec.finetuning().ShortDebugString(), " }; start a new run for other parameters"));
  }
  const bool dense = DenseSteps(spec) > 0 && !state.upcycled;
  const v1::ModelConfig expected = dense ? DenseCounterpart(spec.model()) : spec.model();
  if (!SameModel(state.model, expected, spec.growth().first() > 0)) {
    return absl::FailedPreconditionError(
        absl::StrCat(checkpoint.string(), " holds the model\n", state.model.DebugString(),
                     "but run.textproto asks for\n", expected.DebugString(),
                     "start a new run for another model"));
  }
  return absl::OkStatus();
}

}  // namespace

Shard MomentShard(const v1::RunSpec& spec, size_t size, int rank) {
  if (spec.optimizer_sharding() == v1::REPLICATED) return {0, size};
  return ShardOf(size, rank, spec.world_size());
}

absl::StatusOr<TrainingState> InitialState(const v1::RunSpec& spec, int rank) {
  if (!spec.branch_from().empty()) {
    return absl::DataLossError(absl::StrCat("the branch at ", spec.branch_from(),
                                            " has no checkpoint, expected at least the one that "
                                            "it began with; start the branch again"));
  }
  ASSIGN_OR_RETURN(auto model, StartingModel(spec));
  TrainingState state = WithZeroMoments(std::move(model), spec, rank);
  state.upcycled = UsesExperts(state.model->config());
  if (IsPartial(spec.finetuning())) {
    ASSIGN_OR_RETURN(const CheckpointState base, ReadCheckpointState(spec.init_from()));
    state.partial =
        PartialOf(spec.finetuning(), spec.init_from(), base.step, BaseTensors(*state.model));
  }
  state.gate_penalty = spec.model().routing().token().l1_start();
  BeginAverage(spec, &state);
  return state;
}

// The moments must be gathered before they are copied: the expert model has more parameters than
// the dense one, so its shards begin at other elements, and a rank may need dense moments of every
// other rank.
absl::StatusOr<TrainingState> UpcycledState(TrainingState dense, const v1::RunSpec& spec,
                                            Communicator& communicator) {
  ASSIGN_OR_RETURN(auto model, Upcycle(*dense.model, spec.model(), spec.seed()));
  ASSIGN_OR_RETURN(const std::vector<float> m, Whole(dense, dense.m, communicator));
  ASSIGN_OR_RETURN(const std::vector<float> v, Whole(dense, dense.v, communicator));
  const std::vector<ParameterOrigin> origins = UpcycledOrigins(*dense.model, *model);
  TrainingState state = WithZeroMoments(std::move(model), spec, communicator.rank());
  std::vector<float> average;
  // Parameters without a dense origin, such as routers, begin their average with their weights.
  if (spec.optimizer().ema_decay() > 0) {
    ASSIGN_OR_RETURN(average, Whole(dense, dense.average, communicator));
  }
  BeginAverage(spec, &state);
  for (size_t i = 0; i < origins.size(); ++i) {
    if (origins[i].dense_parameter < 0) continue;
    const Extent source =
        ExtentOf(*dense.model, dense.model->parameters()[origins[i].dense_parameter]);
    const Extent to = ExtentOf(*state.model, state.model->parameters()[i]);
    const float scale = 1.0f / static_cast<float>(origins[i].copies);
    const auto copy = [&](const std::vector<float>& from, float factor, std::vector<float>& kept) {
      if (from.empty()) return;
      CopyScaled(std::span(from).subspan(source.offset, source.size), factor, to, state.moments,
                 kept);
    };
    copy(m, scale, state.m);
    copy(v, scale * scale, state.v);
    copy(average, 1, state.average);
  }
  state.step = dense.step;
  state.num_updates = state.dense_updates = dense.num_updates;
  state.num_tokens = dense.num_tokens;
  state.gate_penalty = dense.gate_penalty;
  state.validation = dense.validation;
  state.spikes.num_consecutive = dense.spikes.num_consecutive;
  // Where experts are chosen, the model becomes another function, whose losses would look like
  // spikes beside those of the dense one.
  if (MergesExperts(spec.model().routing())) state.spikes = std::move(dense.spikes);
  state.upcycled = true;
  return state;
}

CheckpointSource SourceOf(TrainingState& state, const std::string& dataset_key) {
  CheckpointSource source;
  source.state.step = state.step;
  source.state.num_updates = state.num_updates;
  source.state.dense_updates = state.dense_updates;
  source.state.num_tokens = state.num_tokens;
  source.state.upcycled = state.upcycled;
  source.state.gate_penalty = state.gate_penalty;
  source.state.validation = state.validation;
  source.state.spikes = state.spikes;
  source.state.dataset_key = dataset_key;
  source.state.model = state.model->config();
  source.state.partial = state.partial;
  source.weights = WeightsOf(*state.model, /*trained=*/true);
  if (state.partial.finetuning().self_contained()) {
    source.constants = WeightsOf(*state.model, /*trained=*/false);
  }
  source.moments = MomentsOf(state);
  return source;
}

absl::Status SaveState(TrainingState& state, const std::filesystem::path& checkpoints,
                       const std::string& dataset_key, const std::filesystem::path& tokenizer) {
  SingleProcess alone;
  CheckpointWriterSettings settings;
  settings.checkpoints = checkpoints;
  settings.tokenizer = tokenizer;
  settings.attempt = "save";
  CheckpointWriter writer(&alone, settings);
  RETURN_IF_ERROR(writer.Start(SourceOf(state, dataset_key)));
  return writer.Finish();
}

absl::StatusOr<TrainingState> RestoreState(const std::filesystem::path& checkpoint,
                                           const v1::RunSpec& spec, const std::string& dataset_key,
                                           int rank) {
  ASSIGN_OR_RETURN(const CheckpointState record, ReadCheckpointState(checkpoint));
  RETURN_IF_ERROR(CheckBelongs(checkpoint, record, spec, dataset_key));
  // The checkpoint's own configuration: before upcycling it is that of the dense model.
  ASSIGN_OR_RETURN(auto model, LanguageModel::Create(record.model, spec.seed(), spec.finetuning()));
  TrainingState state = WithZeroMoments(std::move(model), spec, rank);
  if (record.partial.has_base()) {
    RETURN_IF_ERROR(ReadBaseWeights(checkpoint, record.partial, BaseTensors(*state.model)));
  } else {
    RETURN_IF_ERROR(ReadWeights(checkpoint, record, WeightsOf(*state.model, /*trained=*/false)));
  }
  const std::vector<CheckpointTensor> trained = WeightsOf(*state.model, /*trained=*/true);
  RETURN_IF_ERROR(ReadWeights(checkpoint, record, trained));
  // ReadMoments leaves the average as it is when the checkpoint has none.
  BeginAverage(spec, &state);
  RETURN_IF_ERROR(ReadMoments(checkpoint, record, trained, MomentsOf(state)));
  state.partial = record.partial;
  state.step = record.step;
  state.num_updates = record.num_updates;
  state.dense_updates = record.dense_updates;
  state.num_tokens = record.num_tokens;
  state.upcycled = record.upcycled;
  state.gate_penalty = record.gate_penalty;
  // A branch begins without validations: those of its source may have had other windows, or have
  // stopped it early.
  ASSIGN_OR_RETURN(const int64_t first_step, FirstStep(spec));
  if (record.step > first_step) state.validation = record.validation;
  state.spikes = record.spikes;
  return state;
}

absl::StatusOr<std::unique_ptr<LanguageModel>> LoadModel(const std::filesystem::path& checkpoint,
                                                         bool average) {
  RETURN_IF_ERROR(VerifyCheckpoint(checkpoint));
  ASSIGN_OR_RETURN(CheckpointState record, ReadCheckpointState(checkpoint));
  record.use_average = average;
  ASSIGN_OR_RETURN(auto model, LanguageModel::Create(record.model, /*seed=*/std::nullopt));
  RETURN_IF_ERROR(ReadMergedWeights(checkpoint, record, BaseTensors(*model)));
  return model;
}

}  // namespace braid
