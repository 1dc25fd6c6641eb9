#include "reproduce/order/order_experiment.h"

#include "absl/strings/str_cat.h"
#include "reproduce/order/order_claims.h"

namespace braid {
namespace {

constexpr char kOrderIntroduction[] =
    "Why similarity order lowers no held-out loss in small batches, and whether a batch or a mask "
    "exists with which it does. <em>Help</em> is the loss in random minus that in similarity "
    "order. Domains count alike.";

constexpr char kOrderLimits[] =
    "At equal tokens, a larger batch also means fewer steps and another learning rate. All arms of "
    "a batch but dense-half-rate use one rate; those of 16 and 64 sequences were set without a "
    "pilot. Those of tuned arms are the best of a sweep with another seed.";

constexpr double kSmallBatchRate = 6e-3;
constexpr double kLargeBatchRate = 8e-3;
constexpr double kLongBatchRate = 1e-2;
// Tokens of a long run and of a longest one, relative to the others.
constexpr double kLongLength = 4;
constexpr double kLongestLength = kLongBatch / kSmallBatch;

// Windows of a validation: ten of them take about 1 % of the time of a long run.
constexpr int64_t kValidationWindows = 24;

double RateOf(int batch) {
  if (batch == kSmallBatch) return kSmallBatchRate;
  return batch == kLargeBatch ? kLargeBatchRate : kLongBatchRate;
}

// Returns the rate that was best in a sweep with another seed (docs/reproduction/order.md).
double TunedRateOf(int batch) {
  switch (batch) {
    case kSmallBatch:
      return 6e-3;
    case kLargeBatch:
      return 2.4e-2;
    default:
      return 1.2e-2;
  }
}

v1::RunSpec ModelSettings(const std::string& model) {
  v1::RunSpec settings;
  v1::RoutingConfig* const routing = settings.mutable_model()->mutable_routing();
  routing->set_segment_length(64);
  if (model == "dense") {
    routing->set_router(v1::DENSE);
    return settings;
  }
  routing->set_router(v1::CAUSAL_SEGMENT);
  routing->set_num_experts(8);
  settings.mutable_upcycling()->set_dense_fraction(0.05);
  return settings;
}

ArmDefinition OrderArmOf(const std::string& model, int batch, v1::AttentionMask mask) {
  ArmDefinition arm{.name = OrderArm(model, batch, mask),
                    .description = absl::StrCat(model, ", ", batch, " sequences, mask ",
                                                v1::AttentionMask_Name(mask)),
                    .settings = ModelSettings(model),
                    .orders = {v1::SIMILARITY, v1::RANDOM},
                    .tokens_per_second = model == "dense" ? 19700.0 : 17000.0};
  arm.settings.mutable_model()->set_attention_mask(mask);
  arm.settings.mutable_batch()->set_global_batch_size(batch);
  arm.settings.mutable_optimizer()->set_learning_rate(RateOf(batch));
  return arm;
}

// Returns an arm that draws its instances from both orders; `similarity` is the share of similarity
// order at first, and `later` that after the share `turn` of the run.
ArmDefinition MixedArm(const std::string& model, const std::string& name, double similarity,
                       double later, double turn = 0.5) {
  ArmDefinition arm = OrderArmOf(model, kSmallBatch, v1::OPEN);
  arm.name = absl::StrCat(model, "-", name);
  arm.description =
      absl::StrCat(model, ", share of similarity order ", similarity, ", then ", later);
  if (later != similarity) absl::StrAppend(&arm.description, " after ", 100 * turn, " %");
  arm.orders = {v1::SIMILARITY};
  arm.full_only = true;
  for (const auto& [data, share] :
       {std::pair(kSimilarityData, similarity), std::pair(kRandomData, 1 - similarity)}) {
    v1::MixtureDataset* const part = arm.settings.add_datasets();
    part->set_dataset(data);
    part->set_share(share);
  }
  if (later == similarity) return arm;
  v1::SharePhase* const phase = arm.settings.add_share_phases();
  phase->mutable_after()->set_fraction(turn);
  phase->add_shares(later);
  phase->add_shares(1 - later);
  return arm;
}

ArmDefinition TwoRunsArm(const std::string& model) {
  ArmDefinition arm = OrderArmOf(model, kSmallBatch, v1::OPEN);
  arm.name = absl::StrCat(model, "-two-runs");
  absl::StrAppend(&arm.description, ", two runs of similar documents per instance");
  arm.orders = {v1::SIMILARITY};
  arm.dataset = kTwoRunsData;
  arm.full_only = true;
  return arm;
}

ArmDefinition HalfRateArm() {
  ArmDefinition arm = OrderArmOf("dense", kSmallBatch, v1::OPEN);
  arm.name = "dense-half-rate";
  absl::StrAppend(&arm.description, ", half of the learning rate");
  arm.settings.mutable_optimizer()->set_learning_rate(kSmallBatchRate / 2);
  arm.full_only = true;
  return arm;
}

ArmDefinition LongArmOf(const std::string& model, int batch) {
  ArmDefinition arm = OrderArmOf(model, batch, v1::OPEN);
  arm.name = LongArm(model, batch);
  arm.description = absl::StrCat(model, ", ", batch, " sequences, ", kLongLength, " times as long");
  arm.length = kLongLength;
  arm.full_only = true;
  return arm;
}

ArmDefinition TunedArmOf(const std::string& model, int batch) {
  ArmDefinition arm = LongArmOf(model, batch);
  arm.name = TunedArm(model, batch);
  absl::StrAppend(&arm.description, ", best rate");
  arm.settings.mutable_optimizer()->set_learning_rate(TunedRateOf(batch));
  v1::ValidationConfig* const validation = arm.settings.mutable_validation();
  validation->mutable_every()->set_fraction(0.1);
  validation->set_windows(kValidationWindows);
  return arm;
}

ArmDefinition LongestArmOf(const std::string& model, int batch) {
  ArmDefinition arm = LongArmOf(model, batch);
  arm.name = LongestArm(model, batch);
  arm.description =
      absl::StrCat(model, ", ", batch, " sequences, ", kLongestLength, " times as long");
  arm.length = kLongestLength;
  // The small batch is compared with in random order alone.
  if (batch == kSmallBatch) arm.orders = {v1::RANDOM};
  return arm;
}

std::vector<ArmDefinition> OrderArms() {
  std::vector<ArmDefinition> arms;
  for (const v1::AttentionMask mask : {v1::OPEN, v1::DOCUMENT}) {
    for (const int batch : {kSmallBatch, kLargeBatch}) {
      for (const char* model : {"dense", "moe"}) arms.push_back(OrderArmOf(model, batch, mask));
    }
  }
  for (const char* model : {"dense", "moe"}) {
    arms.push_back(MixedArm(model, "mixed", 0.5, 0.5));
    arms.push_back(MixedArm(model, "random-first", 0, 1));
    arms.push_back(MixedArm(model, "random-first-10", 0, 1, 0.1));
    arms.push_back(MixedArm(model, "random-first-90", 0, 1, 0.9));
    arms.push_back(TwoRunsArm(model));
  }
  arms.push_back(HalfRateArm());
  for (const int batch : {kSmallBatch, kLongBatch}) {
    for (const char* model : {"dense", "moe"}) arms.push_back(LongArmOf(model, batch));
  }
  for (const char* model : {"dense", "moe"}) arms.push_back(LongestArmOf(model, kLongBatch));
  arms.push_back(LongestArmOf("moe", kSmallBatch));
  for (const int batch : {kSmallBatch, kLongBatch, kLargeBatch, kLargestBatch}) {
    for (const char* model : {"dense", "moe"}) arms.push_back(TunedArmOf(model, batch));
  }
  return arms;
}

Experiment MakeOrder() {
  Experiment experiment{
      .name = "order",
      .title = "Similarity order",
      .introduction = kOrderIntroduction,
      .limits = kOrderLimits,
      .protocol = "docs/reproduction/order.md",
      .main_arm = OrderArm("moe", kSmallBatch, v1::OPEN),
      .datasets = {{kSimilarityData, v1::SIMILARITY},
                   {kRandomData, v1::RANDOM},
                   {.name = kTwoRunsData, .runs_per_instance = 2},
                   {.name = kRelatedData, .order = v1::RANDOM, .heldout_by_similarity = true}},
      .arms = OrderArms(),
      .quick = {.num_steps = 480, .heldout_windows = 1024, .num_seeds = 1},
      .full = {.num_steps = 480, .heldout_windows = 1024, .num_seeds = 3},
      .scores =
          [](const PlannedRun&) {
            return std::vector<PlannedScore>{{}, {.dataset = kRelatedData}};
          },
      .claims = EvaluateOrderClaims};
  experiment.settings.mutable_model()->set_preset("tiny");
  experiment.settings.mutable_batch()->set_global_batch_size(kSmallBatch);
  return experiment;
}

}  // namespace

const Experiment& OrderExperiment() {
  static const auto* const experiment = new Experiment(MakeOrder());
  return *experiment;
}

}  // namespace braid
