#include "evaluation/score_summary.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "model/config/model_config.h"

namespace braid {
namespace {

using Units = std::span<const UnitScore>;
using Sums = LossSums UnitScore::*;

std::vector<RatioUnit> NatsPerToken(Units units, Sums sums) {
  std::vector<RatioUnit> ratios;
  for (const UnitScore& unit : units) {
    ratios.push_back({(unit.*sums).nats, static_cast<double>((unit.*sums).tokens)});
  }
  return ratios;
}

std::vector<RatioUnit> BitsPerByte(Units units, Sums sums) {
  std::vector<RatioUnit> ratios;
  for (const UnitScore& unit : units) {
    ratios.push_back(
        {(unit.*sums).nats / std::numbers::ln2, static_cast<double>((unit.*sums).bytes)});
  }
  return ratios;
}

UnitScore Total(Units units) {
  UnitScore total;
  for (const UnitScore& unit : units) {
    total.all.Add(unit.all);
    total.after_first_segment.Add(unit.after_first_segment);
  }
  return total;
}

double Ratio(double numerator, int64_t denominator) {
  return denominator > 0 ? numerator / static_cast<double>(denominator) : 0;
}

// Perplexity over no tokens is reported as 0, like all other figures.
double Perplexity(const LossSums& sums) {
  return sums.tokens > 0 ? std::exp(Ratio(sums.nats, sums.tokens)) : 0;
}

double BitsPerByte(const LossSums& sums) {
  return Ratio(sums.nats / std::numbers::ln2, sums.bytes);
}

bool CanResample(std::span<const RatioUnit> units) {
  return std::ranges::count_if(units, [](const RatioUnit& u) { return u.denominator > 0; }) >= 2;
}

std::optional<v1::Interval> IntervalOf(std::span<const RatioUnit> units,
                                       const BootstrapOptions& options) {
  if (!CanResample(units)) return std::nullopt;
  return BootstrapRatio(units, options);
}

v1::Interval Exp(v1::Interval interval) {
  interval.set_low(std::exp(interval.low()));
  interval.set_high(std::exp(interval.high()));
  return interval;
}

void SetFigures(const UnitScore& total, v1::DomainEvaluation* result) {
  const LossSums& all = total.all;
  result->set_num_tokens(all.tokens);
  result->set_num_bytes(all.bytes);
  result->set_loss(Ratio(all.nats, all.tokens));
  result->set_perplexity(Perplexity(all));
  result->set_bits_per_byte(BitsPerByte(all));
  const LossSums& after = total.after_first_segment;
  result->set_num_tokens_after_first_segment(after.tokens);
  result->set_num_bytes_after_first_segment(after.bytes);
  result->set_loss_after_first_segment(Ratio(after.nats, after.tokens));
  result->set_perplexity_after_first_segment(Perplexity(after));
  result->set_bits_per_byte_after_first_segment(BitsPerByte(after));
}

// exp is monotonic, so the interval of the perplexity follows from that of the loss.
void SetIntervals(Units windows, const BootstrapOptions& options, v1::DomainEvaluation* result) {
  if (const auto loss = IntervalOf(NatsPerToken(windows, &UnitScore::all), options)) {
    *result->mutable_perplexity_interval() = Exp(*loss);
  }
  constexpr Sums kAfter = &UnitScore::after_first_segment;
  if (const auto loss = IntervalOf(NatsPerToken(windows, kAfter), options)) {
    *result->mutable_perplexity_after_first_segment_interval() = Exp(*loss);
  }
  if (const auto bits = IntervalOf(BitsPerByte(windows, kAfter), options)) {
    *result->mutable_bits_per_byte_after_first_segment_interval() = *bits;
  }
}

void SetRouting(const std::vector<RoutingTotals>& routing, const v1::ModelConfig& config,
                v1::DomainEvaluation* result) {
  const std::vector<int> layers = MoeLayers(config);
  for (size_t i = 0; i < routing.size(); ++i) {
    const std::vector<double> mean = MeanWeights(routing[i]);
    v1::LayerWeights* weights = result->add_routing();
    weights->set_layer(layers[i]);
    weights->mutable_weights()->Assign(mean.begin(), mean.end());
  }
}

v1::DomainEvaluation Summarize(const DomainScore& score, const v1::ModelConfig& config,
                               const BootstrapOptions& options) {
  v1::DomainEvaluation result;
  result.set_domain(score.name);
  result.set_num_windows(static_cast<int64_t>(score.windows.size()));
  SetFigures(Total(score.windows), &result);
  SetIntervals(score.windows, options, &result);
  SetRouting(score.routing, config, &result);
  return result;
}

void AddRouting(const std::vector<RoutingTotals>& from, std::vector<RoutingTotals>* to) {
  if (to->empty()) *to = std::vector<RoutingTotals>(from.size(), RoutingTotals(0));
  for (size_t i = 0; i < from.size(); ++i) {
    std::vector<double>& sums = (*to)[i].sums;
    sums.resize(from[i].sums.size());
    std::ranges::transform(sums, from[i].sums, sums.begin(), std::plus<>());
  }
}

// The estimate is the ratio over all units of one score minus that of the other.
v1::DomainDifference Compare(const DomainScore& baseline, const DomainScore& score,
                             const Pairing& pairing, const BootstrapOptions& options) {
  constexpr Sums kAfter = &UnitScore::after_first_segment;
  const Units a = pairing.same_windows ? baseline.windows : baseline.documents;
  const Units b = pairing.same_windows ? score.windows : score.documents;
  BRAID_CHECK(a.size() == b.size()) << baseline.name << ": " << a.size() << " and " << b.size();
  const LossSums total_a = Total(a).*kAfter, total_b = Total(b).*kAfter;
  const auto difference = [&](const auto& of_a, const auto& of_b) -> std::optional<v1::Interval> {
    if (!CanResample(of_a) || !CanResample(of_b)) return std::nullopt;
    return BootstrapDifference(of_a, of_b, options);
  };
  v1::DomainDifference result;
  result.set_domain(baseline.name);
  if (pairing.same_tokenizer && total_a.tokens > 0 && total_b.tokens > 0) {
    result.set_loss_difference(Ratio(total_a.nats, total_a.tokens) -
                               Ratio(total_b.nats, total_b.tokens));
    const auto interval = difference(NatsPerToken(a, kAfter), NatsPerToken(b, kAfter));
    if (interval) *result.mutable_loss_difference_interval() = *interval;
  }
  if (total_a.bytes == 0 || total_b.bytes == 0) return result;
  result.set_bits_per_byte_difference(BitsPerByte(total_a) - BitsPerByte(total_b));
  const auto interval = difference(BitsPerByte(a, kAfter), BitsPerByte(b, kAfter));
  if (interval) *result.mutable_bits_per_byte_difference_interval() = *interval;
  return result;
}

}  // namespace

DomainScore AllDomains(const TextScore& score) {
  DomainScore all{.name = "all", .windows = {}, .documents = {}, .routing = {}};
  for (const DomainScore& domain : score) {
    all.windows.insert(all.windows.end(), domain.windows.begin(), domain.windows.end());
    all.documents.insert(all.documents.end(), domain.documents.begin(), domain.documents.end());
    AddRouting(domain.routing, &all.routing);
  }
  return all;
}

v1::Evaluation SummarizeScore(const TextScore& score, const v1::ModelConfig& config,
                              const BootstrapOptions& options) {
  v1::Evaluation evaluation;
  for (const DomainScore& domain : score) {
    *evaluation.add_domains() = Summarize(domain, config, options);
  }
  *evaluation.mutable_total() = Summarize(AllDomains(score), config, options);
  evaluation.set_moe(UsesExperts(config));
  return evaluation;
}

void AddWindows(const TextScore& score, v1::Evaluation* evaluation) {
  for (size_t i = 0; i < score.size(); ++i) {
    v1::DomainEvaluation* domain = evaluation->mutable_domains(static_cast<int>(i));
    for (const UnitScore& window : score[i].windows) {
      v1::WindowScore* sums = domain->add_windows();
      sums->set_loss(window.all.nats);
      sums->set_num_tokens(window.all.tokens);
      sums->set_loss_after_first_segment(window.after_first_segment.nats);
      sums->set_num_tokens_after_first_segment(window.after_first_segment.tokens);
    }
  }
}

v1::EvaluationComparison CompareScores(const TextScore& baseline, const TextScore& score,
                                       const Pairing& pairing, const BootstrapOptions& options) {
  BRAID_CHECK(baseline.size() == score.size()) << baseline.size() << " and " << score.size();
  v1::EvaluationComparison comparison;
  comparison.set_paired_by_document(!pairing.same_windows);
  for (size_t i = 0; i < score.size(); ++i) {
    *comparison.add_domains() = Compare(baseline[i], score[i], pairing, options);
  }
  *comparison.add_domains() = Compare(AllDomains(baseline), AllDomains(score), pairing, options);
  return comparison;
}

}  // namespace braid
