#include "runs/run_spec.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "formats/chat_template.h"
#include "formats/packed_dataset.h"
#include "model/config/document_config.h"
#include "model/config/family_config.h"
#include "model/config/finetuning_config.h"
#include "model/config/head_config.h"
#include "model/config/layer_mixing_config.h"
#include "model/config/model_config.h"
#include "proto/stated_defaults.h"
#include "runs/batch_spec.h"
#include "runs/expert_growth.h"
#include "runs/field_check.h"
#include "runs/launch_config.h"
#include "runs/mixture_spec.h"
#include "runs/optimizer_spec.h"
#include "runs/schedule_spec.h"
#include "runs/starting_point.h"
#include "runs/training_length.h"
#include "runs/validation_spec.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxMicroBatchTokens = 16384;
// Larger than any useful value and small enough that a mistyped one neither exhausts the memory nor
// overflows the number of tokens.
constexpr int32_t kMaxBatch = 1 << 20;
constexpr int32_t kMaxThreads = 1024;
constexpr int64_t kMinBucketBytes = 1 << 10;
constexpr int32_t kMaxSpikeWindow = 10000;
constexpr int64_t kMaxSteps = int64_t{1} << 32;

// Documents end in the data with its EOS token.
absl::Status FillDocumentEnd(const DatasetInfo& data, v1::ModelConfig* model) {
  if (!UsesDocumentEnd(*model)) return absl::OkStatus();
  if (!model->has_document_end()) model->set_document_end(data.eos_id);
  if (model->document_end() == data.eos_id) return absl::OkStatus();
  return BadField("model.document_end", absl::StrCat(model->document_end()),
                  absl::StrCat("the token that ends the documents of the dataset, ", data.eos_id,
                               " (leave it unset)"));
}

// Chats may end their turns with the token that ends documents. A mask that is not asked for must
// not hide a question from its answer; examples in one sequence never see each other.
void FillAttentionMask(const DatasetInfo& data, v1::ModelConfig* model) {
  if (!data.supervised || model->attention_mask() != v1::ATTENTION_MASK_UNSPECIFIED) return;
  model->set_attention_mask(v1::OPEN);
}

v1::LabelHead LabelsOf(const DatasetInfo& data) {
  v1::LabelHead labels;
  labels.mutable_classes()->Assign(data.classes.begin(), data.classes.end());
  labels.set_regression(data.regression);
  return labels;
}

// A model predicts the labels of its data, and tokens of data without labels.
absl::Status FillLabelHead(const std::vector<DatasetInfo>& datasets, v1::ModelConfig* model) {
  for (const DatasetInfo& data : datasets) {
    const v1::LabelHead labels = LabelsOf(data);
    if (data.labeled() && !model->has_label_head()) *model->mutable_label_head() = labels;
    if (google::protobuf::util::MessageDifferencer::Equals(model->label_head(), labels)) continue;
    return BadField("model.label_head", LabelsText(model->label_head()),
                    absl::StrCat(LabelsText(labels), " as in dataset ", data.name,
                                 "; prepare the data with --label-head for this model"));
  }
  return absl::OkStatus();
}

absl::Status FillVocabulary(const DatasetInfo& data, v1::ModelConfig* model) {
  if (!model->has_vocab_size()) model->set_vocab_size(data.vocab_size);
  if (model->vocab_size() >= data.vocab_size) return absl::OkStatus();
  return BadField("model.vocab_size", absl::StrCat(model->vocab_size()),
                  absl::StrCat("at least the vocabulary of the dataset's tokenizer, ",
                               data.vocab_size, " (leave it unset)"));
}

absl::Status CheckChatTemplate(const v1::ModelConfig& model) {
  if (model.chat_template().empty()) return absl::OkStatus();
  const absl::Status found = FindChatTemplate(model.chat_template()).status();
  return absl::Status(found.ok() ? found.code() : absl::StatusCode::kInvalidArgument,
                      absl::StrCat("model.chat_template: ", found.message()));
}

// Texts must begin in training as they do when the model is used.
absl::Status FillStartToken(const DatasetInfo& data, v1::ModelConfig* model) {
  if (model->start_token() == v1::START_TOKEN_UNSPECIFIED && data.begin_with_bos) {
    model->set_start_token(v1::START_WITH_BOS);
  }
  if ((model->start_token() == v1::START_WITH_BOS) == data.begin_with_bos) {
    return absl::OkStatus();
  }
  return BadField("model.start_token", v1::StartToken_Name(model->start_token()),
                  data.begin_with_bos
                      ? "START_WITH_BOS, as the dataset was packed; pack it without "
                        "tokenizer.begin_with_bos"
                      : "a dataset packed with tokenizer.begin_with_bos; pack the corpus again");
}

absl::Status FillLengths(const DatasetInfo& data, v1::ModelConfig* model) {
  if (model->has_sequence_length() && model->sequence_length() != data.sequence_length) {
    return BadField("model.sequence_length", absl::StrCat(model->sequence_length()),
                    absl::StrCat("the length the dataset was packed to, ", data.sequence_length,
                                 " (leave it unset, or pack the corpus again)"));
  }
  model->set_sequence_length(static_cast<int32_t>(data.sequence_length));
  return absl::OkStatus();
}

absl::Status FillBatch(const DatasetInfo& data, int32_t world_size, v1::BatchConfig* batch) {
  FillStatedDefaults(batch);
  RETURN_IF_ERROR(
      CheckField(batch->global_batch_size() >= world_size, "batch.global_batch_size",
                 batch->global_batch_size(),
                 absl::StrCat("at least one sequence per rank (world_size: ", world_size, ")")));
  RETURN_IF_ERROR(CheckField(batch->global_batch_size() <= kMaxBatch, "batch.global_batch_size",
                             batch->global_batch_size(), absl::StrCat("at most ", kMaxBatch)));
  if (!batch->has_micro_batch_size()) {
    batch->set_micro_batch_size(
        DefaultMicroBatch(batch->global_batch_size(), world_size, data.sequence_length));
  }
  return CheckField(batch->micro_batch_size() > 0, "batch.micro_batch_size",
                    batch->micro_batch_size(), "at least 1");
}

absl::Status FillUpcycling(v1::RunSpec* spec) {
  if (const double fraction = spec->upcycling().dense_fraction();
      !UsesExperts(spec->model()) && !(fraction <= 0)) {
    return BadField("upcycling.dense_fraction", absl::StrCat(fraction, " for a dense model"),
                    "a model with experts (model.routing.num_experts), or leave it unset");
  }
  if (!UsesExperts(spec->model()) ||
      (IsPartial(spec->finetuning()) && !spec->upcycling().has_dense_fraction())) {
    spec->mutable_upcycling()->set_dense_fraction(0);
    return absl::OkStatus();
  }
  if (!spec->upcycling().has_dense_fraction()) {
    // Only merged experts compute what the dense model computed when they are copied from it.
    const bool seamless = MergesExperts(spec->model().routing());
    spec->mutable_upcycling()->set_dense_fraction(seamless ? 0.05 : 0);
  }
  const double fraction = spec->upcycling().dense_fraction();
  if (fraction > 0) RETURN_IF_ERROR(CheckMadeFromDense(spec->model()));
  return CheckField(fraction < 1, "upcycling.dense_fraction", fraction,
                    "less than 1 (0 trains experts from the first step)");
}

absl::Status FillGrowth(v1::RunSpec* spec) {
  if (!spec->has_growth()) return absl::OkStatus();
  if (Grows(spec->growth())) {
    return ResolveGrowth(spec->mutable_model()->mutable_routing(), spec->mutable_growth(),
                         /*may_outlast=*/!spec->branch_from().empty());
  }
  spec->clear_growth();
  return absl::OkStatus();
}

// Examples that share a sequence must not reach each other through the router.
absl::Status CheckExamples(const std::vector<DatasetInfo>& datasets, const v1::RunSpec& spec) {
  if (!RoutesOnOtherTokens(spec.model().routing())) return absl::OkStatus();
  for (size_t d = 0; d < datasets.size(); ++d) {
    const DatasetInfo& info = datasets[d];
    if (!info.supervised || info.num_examples == info.num_instances) continue;
    const bool mixed = !spec.datasets().empty();
    return BadField(
        mixed ? absl::StrCat("datasets[", d, "]") : "dataset_dir",
        absl::StrCat(mixed ? spec.datasets(static_cast<int>(d)).dataset() : spec.dataset_dir(),
                     " with ", info.num_examples, " examples in ", info.num_instances,
                     " sequences"),
        absl::StrCat("one example a sequence for the router ",
                     v1::Router_Name(spec.model().routing().router()),
                     "; prepare the dataset for this model"));
  }
  return absl::OkStatus();
}

// A choice for the whole batch needs all of its sequences at once, on however many ranks.
absl::Status CheckBatchDecision(const v1::RunSpec& spec) {
  if (!MixesByBatch(spec.model())) return absl::OkStatus();
  const std::string decision =
      v1::LayerMixing::Decision_Name(spec.model().layer_mixing().decision());
  const v1::BatchConfig& batch = spec.batch();
  const int32_t share = (batch.global_batch_size() + spec.world_size() - 1) / spec.world_size();
  if (batch.micro_batch_size() < share) {
    return BadField(
        "model.layer_mixing.decision",
        absl::StrCat(decision, " with micro-batches of ", batch.micro_batch_size(), " of the ",
                     share, " sequences of a rank"),
        absl::StrCat("one micro-batch on each rank (batch.micro_batch_size ", share,
                     ", or more ranks), since the whole batch decides, or the decision SEQUENCE or "
                     "TOKEN"));
  }
  if (!spec.validation().has_every()) return absl::OkStatus();
  return BadField("model.layer_mixing.decision", absl::StrCat(decision, " with validation"),
                  "a run without validation.every, since the choice depends on the other "
                  "sequences of a training batch, or the decision SEQUENCE or TOKEN");
}

absl::Status FillFinetuning(v1::RunSpec* spec) {
  if (!spec->has_finetuning()) return absl::OkStatus();
  ASSIGN_OR_RETURN(*spec->mutable_finetuning(),
                   ResolveFinetuning(spec->finetuning(), spec->model()));
  if (!IsPartial(spec->finetuning())) return absl::OkStatus();
  if (spec->init_from().empty()) {
    return BadField("finetuning", "settings without init_from",
                    "the model whose parameters are trained in part (init_from)");
  }
  if (DenseSteps(*spec) == 0) return absl::OkStatus();
  return BadField("finetuning", "settings with upcycling.dense_fraction above 0",
                  "a run that does not change its parameters (upcycling.dense_fraction 0)");
}

absl::Status FillRanks(v1::RunSpec* spec) {
  RETURN_IF_ERROR(ResolveLaunch(spec));
  const int32_t cores = std::max(1u, std::thread::hardware_concurrency());
  if (!spec->has_threads_per_rank()) {
    spec->set_threads_per_rank(std::max(1, cores / RanksPerMachine(*spec)));
  }
  return CheckField(spec->threads_per_rank() > 0 && spec->threads_per_rank() <= kMaxThreads,
                    "threads_per_rank", spec->threads_per_rank(),
                    absl::StrCat("1 to ", kMaxThreads));
}

absl::Status FillSharing(v1::RunSpec* spec) {
  RETURN_IF_ERROR(CheckField(v1::OptimizerSharding_IsValid(spec->optimizer_sharding()),
                             "optimizer_sharding", spec->optimizer_sharding(),
                             "REPLICATED or ZERO_1"));
  v1::ReductionConfig* reduction = spec->mutable_reduction();
  // 25 MiB amortize the latency of a message and leave several messages per backward pass, so that
  // communication overlaps with computation.
  FillStatedDefaults(reduction);
  return CheckField(reduction->bucket_bytes() >= kMinBucketBytes, "reduction.bucket_bytes",
                    static_cast<double>(reduction->bucket_bytes()),
                    absl::StrCat("at least ", kMinBucketBytes));
}

absl::Status FillSpikes(v1::SpikeConfig* config) {
  FillStatedDefaults(config);
  RETURN_IF_ERROR(CheckField(v1::SpikePolicy_IsValid(config->policy()), "spikes.policy",
                             config->policy(), "CONTINUE, SKIP_BATCH or ROLLBACK"));
  RETURN_IF_ERROR(CheckField(std::isfinite(config->threshold()) && config->threshold() >= 0,
                             "spikes.threshold", config->threshold(),
                             "a number of at least 0 (0 for no detection)"));
  RETURN_IF_ERROR(CheckField(
      config->threshold() > 0 || config->policy() == v1::CONTINUE, "spikes.threshold",
      config->threshold(),
      absl::StrCat("a number above 0 with policy ", v1::SpikePolicy_Name(config->policy()))));
  return CheckField(config->window() >= 4 && config->window() <= kMaxSpikeWindow, "spikes.window",
                    config->window(), absl::StrCat("4 to ", kMaxSpikeWindow));
}

StepSize StepSizeOf(const DatasetInfo& data, const v1::RunSpec& spec) {
  return {.global_batch_size = spec.batch().global_batch_size(),
          .sequence_length = data.sequence_length,
          .num_instances = data.num_instances};
}

absl::Status FillSteps(const DatasetInfo& data, v1::RunSpec* spec) {
  RETURN_IF_ERROR(FillRunLength(StepSizeOf(data, *spec), spec));
  if (!spec->has_num_steps()) {
    spec->set_num_steps(StepsToRead(*spec, static_cast<double>(data.num_instances)));
  }
  RETURN_IF_ERROR(CheckField(spec->num_steps() > 0 && spec->num_steps() <= kMaxSteps, "num_steps",
                             static_cast<double>(spec->num_steps()),
                             absl::StrCat("1 to ", kMaxSteps)));
  RETURN_IF_ERROR(CheckGrowthFits(*spec));
  v1::CheckpointConfig* checkpoint = spec->mutable_checkpoint();
  FillStatedDefaults(checkpoint);
  if (!checkpoint->has_every_steps()) {
    checkpoint->set_every_steps(std::max<int64_t>(50, spec->num_steps() / 10));
  }
  RETURN_IF_ERROR(CheckField(checkpoint->every_steps() > 0, "checkpoint.every_steps",
                             static_cast<double>(checkpoint->every_steps()), "at least 1"));
  RETURN_IF_ERROR(CheckField(checkpoint->keep_last() > 0, "checkpoint.keep_last",
                             checkpoint->keep_last(), "at least 1"));
  RETURN_IF_ERROR(CheckField(checkpoint->keep_every_steps() >= 0, "checkpoint.keep_every_steps",
                             static_cast<double>(checkpoint->keep_every_steps()), "at least 0"));
  return CheckField(spec->routing_every_steps() > 0, "routing_every_steps",
                    static_cast<double>(spec->routing_every_steps()), "at least 1");
}

absl::Status CheckPositive(double value, const char* field) {
  return CheckField(std::isfinite(value) && value > 0, field, value, "a number above 0");
}

std::string ShapeName(const v1::ModelConfig& model) {
  if (!model.preset().empty()) return model.preset();
  std::string name = absl::StrCat("d", model.d_model(), "-l", model.num_layers());
  if (UsesExperts(model)) absl::StrAppend(&name, "-e", model.routing().num_experts());
  return name;
}

// Resolves a spec whose datasets are known. `start`: the weights of init_from; null to find them.
absl::StatusOr<v1::RunSpec> ResolveFor(const std::vector<DatasetInfo>& datasets,
                                       const StartingPoint* start, v1::RunSpec resolved) {
  const DatasetInfo data = CombinedInfo(datasets);
  RETURN_IF_ERROR(FillLengths(data, resolved.mutable_model()));
  FillAttentionMask(data, resolved.mutable_model());
  RETURN_IF_ERROR(FillDocumentEnd(data, resolved.mutable_model()));
  RETURN_IF_ERROR(FillLabelHead(datasets, resolved.mutable_model()));
  RETURN_IF_ERROR(start == nullptr ? FillFromInit(&resolved)
                                   : FillFromStartingPoint(*start, &resolved));
  RETURN_IF_ERROR(FillLabelHead(datasets, resolved.mutable_model()));
  RETURN_IF_ERROR(FillVocabulary(data, resolved.mutable_model()));
  RETURN_IF_ERROR(FillStartToken(data, resolved.mutable_model()));
  RETURN_IF_ERROR(CheckChatTemplate(resolved.model()));
  ASSIGN_OR_RETURN(*resolved.mutable_model(), ResolveModelConfig(resolved.model()));
  FillStatedDefaults(&resolved);
  RETURN_IF_ERROR(FillRanks(&resolved));
  RETURN_IF_ERROR(FillSharing(&resolved));
  RETURN_IF_ERROR(FillBatch(data, resolved.world_size(), resolved.mutable_batch()));
  RETURN_IF_ERROR(FillBatchGrowth(StepSizeOf(data, resolved), &resolved));
  RETURN_IF_ERROR(FillMixture(StepSizeOf(data, resolved), datasets, &resolved));
  RETURN_IF_ERROR(FillSteps(data, &resolved));
  RETURN_IF_ERROR(FillSharePhases(StepSizeOf(data, resolved), datasets, &resolved));
  RETURN_IF_ERROR(FillValidation(StepSizeOf(data, resolved), datasets, &resolved));
  RETURN_IF_ERROR(FillSpikes(resolved.mutable_spikes()));
  RETURN_IF_ERROR(FillUpcycling(&resolved));
  RETURN_IF_ERROR(FillFinetuning(&resolved));
  RETURN_IF_ERROR(CheckExamples(datasets, resolved));
  RETURN_IF_ERROR(CheckBatchDecision(resolved));
  RETURN_IF_ERROR(FillGrowth(&resolved));
  RETURN_IF_ERROR(FillOptimizer(&resolved));
  RETURN_IF_ERROR(FillSchedule(StepSizeOf(data, resolved), &resolved));
  RETURN_IF_ERROR(FillSupervision(resolved.mutable_supervision()));
  SetNegativesToZero(&resolved);
  if (resolved.name().empty()) resolved.set_name(ShapeName(resolved.model()));
  return resolved;
}

}  // namespace

absl::StatusOr<v1::RunSpec> ResolveRunSpec(const v1::RunSpec& spec) {
  v1::RunSpec resolved = spec;
  ASSIGN_OR_RETURN(const std::vector<DatasetInfo> datasets, ReadDatasets(&resolved));
  return ResolveFor(datasets, nullptr, std::move(resolved));
}

absl::StatusOr<v1::RunSpec> ResolveRunSpec(const v1::RunSpec& spec, const DatasetInfo& dataset,
                                           const StartingPoint& start) {
  return ResolveFor({dataset}, &start, spec);
}

void SetNegativesToZero(v1::RunSpec* spec) {
  if (spec->optimizer().weight_decay() < 0) spec->mutable_optimizer()->set_weight_decay(0);
  if (spec->optimizer().clip_norm() < 0) spec->mutable_optimizer()->set_clip_norm(0);
  if (spec->upcycling().dense_fraction() < 0) spec->mutable_upcycling()->set_dense_fraction(0);
  if (spec->supervision().max_restarts() < 0) spec->mutable_supervision()->set_max_restarts(0);
  if (spec->weight_check_every_steps() < 0) spec->set_weight_check_every_steps(0);
}

absl::Status FillSupervision(v1::SupervisionConfig* config) {
  FillStatedDefaults(config);
  RETURN_IF_ERROR(CheckPositive(config->hang_seconds(), "supervision.hang_seconds"));
  RETURN_IF_ERROR(CheckPositive(config->hang_steps(), "supervision.hang_steps"));
  RETURN_IF_ERROR(CheckPositive(config->backoff_seconds(), "supervision.backoff_seconds"));
  RETURN_IF_ERROR(CheckField(config->slow_rank_ratio() > 1, "supervision.slow_rank_ratio",
                             config->slow_rank_ratio(), "a number above 1"));
  return CheckField(config->slow_rank_steps() > 0, "supervision.slow_rank_steps",
                    config->slow_rank_steps(), "at least 1");
}

int32_t DefaultMicroBatch(int64_t global_batch_size, int64_t world_size, int64_t sequence_length) {
  const int64_t share = (global_batch_size + world_size - 1) / world_size;
  const int64_t limit = std::max<int64_t>(kMaxMicroBatchTokens / sequence_length, 1);
  return static_cast<int32_t>(std::min(share, limit));
}

int64_t DenseSteps(const v1::RunSpec& resolved) {
  const double fraction = resolved.upcycling().dense_fraction();
  if (!UsesExperts(resolved.model()) || !(fraction > 0)) return 0;
  const double steps = std::ceil(fraction * static_cast<double>(resolved.num_steps()) - 1e-9);
  return std::clamp<int64_t>(static_cast<int64_t>(steps), 0, resolved.num_steps() - 1);
}

}  // namespace braid
