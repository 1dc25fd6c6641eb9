#include "reproduce/order/order_claims.h"

#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

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

  Claim LargerBatchesOfLongRunsHelp() const {
    ClaimBuilder builder(evidence_, settings_,
                         {.number = 6, .name = "batches of few topics harm long runs"});
    for (const char* model : {"dense", "moe"}) {
      Add(builder, absl::StrCat("help at 64 minus 4 sequences, ", model), kGain,
          Minus(Help(LongArm(model, kLongBatch)), Help(LongArm(model, kSmallBatch))));
    }
    for (const int batch : {kSmallBatch, kLongBatch}) {
      for (const char* model : {"dense", "moe"}) {
        Add(builder, absl::StrCat("help, ", model, ", ", batch, " sequences"), std::nullopt,
            Help(LongArm(model, batch)));
      }
    }
    Add(builder, "gain of experts in similarity minus random order, 64 sequences", std::nullopt,
        Minus(Help(LongArm("moe", kLongBatch)), Help(LongArm("dense", kLongBatch))));
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

  void AddMixtures(ClaimBuilder& builder) const {
    for (const char* model : {"dense", "moe"}) {
      for (const char* mixture : {"mixed", "random-first"}) {
        Add(builder, absl::StrCat("random minus ", mixture, ", ", model), std::nullopt,
            {{+1, OrderArm(model, kSmallBatch, v1::OPEN), v1::RANDOM},
             {-1, absl::StrCat(model, "-", mixture), v1::SIMILARITY}});
      }
    }
    Add(builder, "help at half of the rate minus help, dense", std::nullopt,
        Minus(Help("dense-half-rate"), Help(OrderArm("dense", kSmallBatch, v1::OPEN))));
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
  return {claims.SmallBatchesHarm(),
          claims.NeighborsDistract(),
          claims.ExpertsGainMore(),
          best(4, v1::OPEN),
          best(5, v1::DOCUMENT),
          claims.LargerBatchesOfLongRunsHelp(),
          claims.SimilarityIsBest(7, absl::StrCat(kLongBatch, " sequences in long runs"),
                                  LongArm("dense", kLongBatch), LongArm("moe", kLongBatch),
                                  LongArm("moe", kSmallBatch)),
          claims.SimilarityIsBest(8, absl::StrCat(kLongBatch, " sequences in the longest runs"),
                                  LongestArm("dense", kLongBatch), LongestArm("moe", kLongBatch),
                                  LongestArm("moe", kSmallBatch)),
          claims.LargerBatchesOfEqualStepsHelp()};
}

}  // namespace braid
