#include "reproduce/order/order_claims.h"

#include <cmath>
#include <initializer_list>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "reproduce/experiment.h"
#include "reproduce/training_curves.h"

namespace braid {
namespace {

using Terms = std::vector<SignedArm>;

// Returns the domains with held-out tokens, each with the same weight.
std::vector<DomainGroup> DomainsAlike(const Evidence& evidence, int32_t first_positions) {
  std::set<std::string> names;
  for (const ArmResult& result : evidence.results) {
    const HeldoutScore* const score = FindScore(result, ScoredRouting::kSegment, first_positions);
    if (score == nullptr) continue;
    for (const DomainWindows& domain : score->domains) {
      for (const WindowLoss& window : domain.windows) {
        if (window.later_tokens > 0) names.insert(domain.domain);
      }
    }
  }
  std::vector<DomainGroup> groups;
  for (const std::string& name : names) {
    groups.push_back({1.0 / static_cast<double>(names.size()), {name}});
  }
  if (groups.empty()) groups.push_back({});
  return groups;
}

// Returns the loss of a run after the first positions, with equal weights of domains, in windows of
// related documents minus that in windows in the order of the source.
std::optional<double> LossOfRelated(const ArmResult& result, int32_t first_positions) {
  double difference = 0;
  for (const auto& [sign, dataset] : {std::pair(1.0, kRelatedData), std::pair(-1.0, "")}) {
    const HeldoutScore* const score =
        FindScore(result, ScoredRouting::kSegment, first_positions, 0, dataset);
    if (score == nullptr) return std::nullopt;
    double sum = 0;
    int num_domains = 0;
    for (const DomainWindows& domain : score->domains) {
      double loss = 0;
      int64_t tokens = 0;
      for (const WindowLoss& window : domain.windows) {
        loss += window.later_loss;
        tokens += window.later_tokens;
      }
      if (tokens == 0) continue;
      sum += loss / static_cast<double>(tokens);
      ++num_domains;
    }
    if (num_domains == 0) return std::nullopt;
    difference += sign * sum / num_domains;
  }
  return difference;
}

// Returns the mean squared norm of the gradient in the second half of a run.
std::optional<double> SquaredGradientNorm(const ArmResult& result) {
  double sum = 0;
  int64_t count = 0;
  for (size_t i = result.metrics.size() / 2; i < result.metrics.size(); ++i, ++count) {
    sum += result.metrics[i].gradient_norm() * result.metrics[i].gradient_norm();
  }
  if (count == 0 || sum == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

// Returns the gradient noise scale in sequences: the trace of the covariance of the gradients of
// sequences over the squared norm of their mean. The squared norm with a batch of b is expected to
// be |G|^2 + trace / b (arXiv 1812.06162, appendix A.1), so two batches give both, in the mean over
// the seeds that both have.
std::optional<double> GradientNoiseScale(const Evidence& evidence, const std::string& model,
                                         v1::OrderMode order) {
  const auto runs = PairedRuns(evidence, {{1, OrderArm(model, kSmallBatch, v1::OPEN), order},
                                          {1, OrderArm(model, kLargeBatch, v1::OPEN), order}});
  if (!runs.ok()) return std::nullopt;
  double small = 0, large = 0;
  for (const auto& of_seed : *runs) {
    const std::optional<double> norms[] = {SquaredGradientNorm(*of_seed[0]),
                                           SquaredGradientNorm(*of_seed[1])};
    if (!norms[0].has_value() || !norms[1].has_value()) return std::nullopt;
    small += *norms[0] / static_cast<double>(runs->size());
    large += *norms[1] / static_cast<double>(runs->size());
  }
  const double trace = (small - large) / (1.0 / kSmallBatch - 1.0 / kLargeBatch);
  const double mean = small - trace / kSmallBatch;
  if (trace <= 0 || mean <= 0) return std::nullopt;
  return trace / mean;
}

Terms Help(const std::string& arm) { return {{+1, arm, v1::RANDOM}, {-1, arm, v1::SIMILARITY}}; }

Terms Minus(Terms terms, const Terms& other) {
  for (SignedArm term : other) {
    term.sign = -term.sign;
    terms.push_back(term);
  }
  return terms;
}

// Returns the gain of the MoE in similarity order minus that in random order.
Terms GainOfSimilarity(int batch, v1::AttentionMask mask) {
  return Minus(Help(OrderArm("moe", batch, mask)), Help(OrderArm("dense", batch, mask)));
}

class OrderClaims {
 public:
  OrderClaims(const Evidence& evidence, const ClaimSettings& settings)
      : evidence_(evidence),
        settings_(settings),
        domains_(DomainsAlike(evidence, settings.segment_length)) {}

  Claim SmallBatchesHarm() const {
    ClaimBuilder builder(evidence_, settings_, {.number = 1, .name = "batches of few topics harm"});
    for (const char* model : {"dense", "moe"}) {
      Add(builder, absl::StrCat("help at 16 minus 4 sequences, ", model), kGain,
          Minus(Help(OrderArm(model, kLargeBatch, v1::OPEN)),
                Help(OrderArm(model, kSmallBatch, v1::OPEN))));
    }
    Add(builder, "random better than similarity, dense without neighbors", kGain,
        Minus({}, Help(OrderArm("dense", kSmallBatch, v1::DOCUMENT))));
    for (const v1::AttentionMask mask : {v1::OPEN, v1::DOCUMENT}) AddHelp(builder, mask);
    AddMixtures(builder);
    AddNoise(builder);
    return builder.Finish();
  }

  Claim NeighborsDistract() const {
    ClaimBuilder builder(evidence_, settings_,
                         {.number = 2, .name = "attention to neighboring documents harms"});
    for (const char* model : {"dense", "moe"}) {
      Add(builder, absl::StrCat("help with DOCUMENT minus OPEN, ", model), kGain,
          Minus(Help(OrderArm(model, kSmallBatch, v1::DOCUMENT)),
                Help(OrderArm(model, kSmallBatch, v1::OPEN))));
    }
    return builder.Finish();
  }

  Claim ExpertsGainMore() const {
    ClaimBuilder builder(evidence_, settings_,
                         {.number = 3, .name = "experts gain more in similarity order"});
    for (const v1::AttentionMask mask : {v1::OPEN, v1::DOCUMENT}) {
      for (const int batch : {kSmallBatch, kLargeBatch}) {
        Add(builder, absl::StrCat(batch, " sequences, ", v1::AttentionMask_Name(mask)), kGain,
            GainOfSimilarity(batch, mask));
      }
    }
    return builder.Finish();
  }

  // A claim that long runs lose less by similarity order with 64 than with 4 sequences. `arm` names
  // the arm of a model and batch. The help in each of `batches` is reported, and that at
  // validations is drawn.
  Claim LargerBatchesOfLongRunsHelp(int number, const std::string& name,
                                    std::string (*arm)(const std::string&, int),
                                    std::initializer_list<int> batches) const {
    ClaimBuilder builder(evidence_, settings_, {.number = number, .name = name});
    for (const char* model : {"dense", "moe"}) {
      Add(builder, absl::StrCat("help at 64 minus 4 sequences, ", model), kGain,
          Minus(Help(arm(model, kLongBatch)), Help(arm(model, kSmallBatch))));
    }
    for (const int batch : batches) {
      for (const char* model : {"dense", "moe"}) {
        Add(builder, absl::StrCat("help, ", model, ", ", batch, " sequences"), std::nullopt,
            Help(arm(model, batch)));
      }
    }
    Add(builder, "gain of experts in similarity minus random order, 64 sequences", std::nullopt,
        Minus(Help(arm("moe", kLongBatch)), Help(arm("dense", kLongBatch))));
    AddHelpAtValidations(builder, arm);
    return builder.Finish();
  }

  Claim LargerBatchesOfEqualStepsHelp() const {
    ClaimBuilder builder(evidence_, settings_,
                         {.number = 9, .name = "batches of few topics harm at equal steps"});
    for (const char* model : {"dense", "moe"}) {
      Add(builder, absl::StrCat("help at 64 minus 4 sequences, ", model), kGain,
          Minus(Help(LongestArm(model, kLongBatch)), Help(OrderArm(model, kSmallBatch, v1::OPEN))));
      Add(builder, absl::StrCat("help, ", model, ", 64 sequences"), std::nullopt,
          Help(LongestArm(model, kLongBatch)));
    }
    return builder.Finish();
  }

  // A claim that a MoE on similarity order is the best model of a batch and mask. `small` is
  // a MoE with a small batch.
  Claim SimilarityIsBest(int number, const std::string& where, const std::string& dense,
                         const std::string& moe, const std::string& small) const {
    ClaimBuilder builder(
        evidence_, settings_,
        {.number = number,
         .name = absl::StrCat("with ", where, ", the MoE on similarity order is the best model")});
    const SignedArm best = {-1, moe, v1::SIMILARITY};
    for (const auto& [model, arm] : {std::pair("moe", moe), std::pair("dense", dense)}) {
      Add(builder, absl::StrCat(model, " on random order minus MoE on similarity order"), kGain,
          {{+1, arm, v1::RANDOM}, best});
    }
    Add(builder, "moe, 4 sequences, OPEN, random order, minus the same", std::nullopt,
        {{+1, small, v1::RANDOM}, best});
    return builder.Finish();
  }

  Claim HelpsInRelatedWindows() const {
    ClaimBuilder builder(evidence_, settings_,
                         {.number = 10, .name = "similarity order helps in related windows"});
    const auto add = [&](const std::string& arm, std::optional<VerdictRule> rule) {
      builder.AddHeldout(absl::StrCat("help in related windows, ", arm), rule,
                         {.arms = Help(arm), .dataset = kRelatedData, .groups = domains_});
    };
    for (const char* model : {"dense", "moe"}) {
      add(OrderArm(model, kSmallBatch, v1::OPEN), kGain);
      add(LongArm(model, kLongBatch), kGain);
    }
    for (const char* model : {"dense", "moe"}) {
      const std::string small = OrderArm(model, kSmallBatch, v1::OPEN);
      for (const std::string& arm : {small, LongArm(model, kLongBatch)}) {
        builder.AddStatistic(absl::StrCat("help in related minus source windows, ", arm), kLossUnit,
                             std::nullopt, Help(arm), [&](const ArmResult& result) {
                               return LossOfRelated(result, settings_.segment_length);
                             });
      }
      add(OrderArm(model, kSmallBatch, v1::DOCUMENT), std::nullopt);
      add(LongestArm(model, kLongBatch), std::nullopt);
    }
    return builder.Finish();
  }

 private:
  void Add(ClaimBuilder& builder, const std::string& name, std::optional<VerdictRule> rule,
           const Terms& arms) const {
    builder.AddHeldout(name, rule, {.arms = arms, .groups = domains_});
  }

  void AddHelp(ClaimBuilder& builder, v1::AttentionMask mask) const {
    for (const int batch : {kSmallBatch, kLargeBatch}) {
      for (const char* model : {"dense", "moe"}) {
        Add(builder,
            absl::StrCat("help, ", model, ", ", batch, " sequences, ",
                         v1::AttentionMask_Name(mask)),
            std::nullopt, Help(OrderArm(model, batch, mask)));
      }
    }
  }

  void AddHelpAtValidations(ClaimBuilder& builder,
                            std::string (*arm)(const std::string&, int)) const {
    const SeriesFigure figure = {.name = "Help at validations",
                                 .x_label = "percent of training",
                                 .y_label = kLossUnit,
                                 .y_min = 0,
                                 .y_max = 0};
    for (const int batch : {kSmallBatch, kLongBatch}) {
      for (const char* model : {"dense", "moe"}) {
        const Terms help = Help(arm(model, batch));
        builder.AddSeries(ValidationGainOf(evidence_, help[0], help[1],
                                           absl::StrCat(model, ", ", batch, " sequences"), figure));
      }
    }
  }

  void AddMixtures(ClaimBuilder& builder) const {
    for (const char* model : {"dense", "moe"}) {
      for (const char* mixture :
           {"mixed", "random-first-10", "random-first", "random-first-90", "two-runs"}) {
        Add(builder, absl::StrCat("random minus ", mixture, ", ", model), std::nullopt,
            {{+1, OrderArm(model, kSmallBatch, v1::OPEN), v1::RANDOM},
             {-1, absl::StrCat(model, "-", mixture), v1::SIMILARITY}});
      }
    }
    Add(builder, "help at half of the rate minus help, dense", std::nullopt,
        Minus(Help("dense-half-rate"), Help(OrderArm("dense", kSmallBatch, v1::OPEN))));
  }

  void AddNoise(ClaimBuilder& builder) const {
    for (const char* model : {"dense", "moe"}) {
      for (const int batch : {kSmallBatch, kLargeBatch}) {
        builder.AddStatistic(
            absl::StrCat("squared gradient norm, similarity over random order, ", model, ", ",
                         batch, " sequences"),
            "log ratio", std::nullopt, Minus({}, Help(OrderArm(model, batch, v1::OPEN))),
            [](const ArmResult& result) {
              const std::optional<double> norm = SquaredGradientNorm(result);
              return norm.has_value() ? std::optional(std::log(*norm)) : std::nullopt;
            });
      }
      for (const v1::OrderMode order : {v1::RANDOM, v1::SIMILARITY}) {
        const std::optional<double> scale = GradientNoiseScale(evidence_, model, order);
        if (!scale.has_value()) continue;
        builder.AddNote(absl::StrFormat("Gradient noise scale of %s in %s order: %.0f sequences.",
                                        model, order == v1::RANDOM ? "random" : "similarity",
                                        *scale));
      }
    }
  }

  const Evidence& evidence_;
  const ClaimSettings& settings_;
  const std::vector<DomainGroup> domains_;
};

}  // namespace

std::string OrderArm(const std::string& model, int batch, v1::AttentionMask mask) {
  return absl::StrCat(model, "-", batch, "-", absl::AsciiStrToLower(v1::AttentionMask_Name(mask)));
}

std::string LongArm(const std::string& model, int batch) {
  return absl::StrCat(model, "-", batch, "-long");
}

std::string TunedArm(const std::string& model, int batch) {
  return absl::StrCat(model, "-", batch, "-tuned");
}

std::string LongestArm(const std::string& model, int batch) {
  return absl::StrCat(model, "-", batch, "-longest");
}

std::vector<Claim> EvaluateOrderClaims(const Evidence& evidence, const ClaimSettings& settings) {
  const OrderClaims claims(evidence, settings);
  const auto best = [&](int number, v1::AttentionMask mask) {
    return claims.SimilarityIsBest(
        number, absl::StrCat(kLargeBatch, " sequences and mask ", v1::AttentionMask_Name(mask)),
        OrderArm("dense", kLargeBatch, mask), OrderArm("moe", kLargeBatch, mask),
        OrderArm("moe", kSmallBatch, v1::OPEN));
  };
  return {
      claims.SmallBatchesHarm(),
      claims.NeighborsDistract(),
      claims.ExpertsGainMore(),
      best(4, v1::OPEN),
      best(5, v1::DOCUMENT),
      claims.LargerBatchesOfLongRunsHelp(6, "batches of few topics harm long runs", LongArm,
                                         {kSmallBatch, kLongBatch}),
      claims.SimilarityIsBest(7, absl::StrCat(kLongBatch, " sequences in long runs"),
                              LongArm("dense", kLongBatch), LongArm("moe", kLongBatch),
                              LongArm("moe", kSmallBatch)),
      claims.SimilarityIsBest(8, absl::StrCat(kLongBatch, " sequences in the longest runs"),
                              LongestArm("dense", kLongBatch), LongestArm("moe", kLongBatch),
                              LongestArm("moe", kSmallBatch)),
      claims.LargerBatchesOfEqualStepsHelp(),
      claims.HelpsInRelatedWindows(),
      claims.LargerBatchesOfLongRunsHelp(
          13, "batches of few topics harm long runs, each batch at its best rate", TunedArm,
          {kSmallBatch, kLargeBatch, kLongBatch, kLargestBatch}),
      claims.SimilarityIsBest(14, absl::StrCat(kLongBatch, " sequences in long runs at best rates"),
                              TunedArm("dense", kLongBatch), TunedArm("moe", kLongBatch),
                              TunedArm("moe", kSmallBatch))};
}

}  // namespace braid
