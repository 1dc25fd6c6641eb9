#include "reproduce/contrasts.h"

#include <algorithm>
#include <map>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace braid {
namespace {

using RunsOfSeed = std::vector<const ArmResult*>;
using ScoresOfSeed = std::vector<const HeldoutScore*>;

std::string Describe(const SignedArm& arm) {
  if (!arm.task.empty()) return absl::StrCat(arm.arm, " on ", arm.task);
  return absl::StrCat(arm.arm, arm.order == v1::RANDOM ? " in random order" : "");
}

// Returns "dense, moe, moe in random order": each model once.
std::string NamesOf(const std::vector<SignedArm>& arms) {
  std::vector<std::string> names;
  for (const SignedArm& arm : arms) {
    const std::string name = Describe(arm);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return absl::StrJoin(names, ", ");
}

bool IsRunOf(const ArmResult& result, const SignedArm& arm) {
  return result.arm == arm.arm && result.order == arm.order && result.task == arm.task;
}

const ArmResult* FindRun(const Evidence& evidence, const SignedArm& arm, uint64_t seed) {
  const auto found = std::ranges::find_if(evidence.results, [&](const ArmResult& result) {
    return IsRunOf(result, arm) && result.seed == seed;
  });
  return found == evidence.results.end() ? nullptr : &*found;
}

std::set<uint64_t> SeedsOf(const Evidence& evidence, const SignedArm& arm) {
  std::set<uint64_t> seeds;
  for (const ArmResult& result : evidence.results) {
    if (IsRunOf(result, arm)) seeds.insert(result.seed);
  }
  return seeds;
}

absl::StatusOr<ScoresOfSeed> ScoresOf(const RunsOfSeed& runs, const HeldoutContrast& contrast) {
  ScoresOfSeed scores;
  for (size_t i = 0; i < runs.size(); ++i) {
    const SignedArm& arm = contrast.arms[i];
    scores.push_back(FindScore(*runs[i], arm.routing, contrast.first_positions, arm.active_experts,
                               contrast.dataset));
    if (scores.back() != nullptr) continue;
    return absl::NotFoundError(absl::StrCat("the run of ", Describe(arm), ", seed ", runs[i]->seed,
                                            ", was not scored in the required way"));
  }
  return scores;
}

bool SameTokens(const WindowLoss& a, const WindowLoss& b) {
  return a.first_tokens == b.first_tokens && a.later_tokens == b.later_tokens;
}

absl::Status CheckSameWindows(const HeldoutScore& a, const HeldoutScore& b,
                              const std::string& name) {
  const bool same = std::ranges::equal(
      a.domains, b.domains, [](const DomainWindows& mine, const DomainWindows& theirs) {
        return mine.domain == theirs.domain &&
               std::ranges::equal(mine.windows, theirs.windows, SameTokens);
      });
  if (same) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(name,
                   " was not scored on the same held-out windows as the other runs, so their "
                   "losses cannot be compared; prepare the corpus once for all runs"));
}

// The signed sum of the losses of each window, and its number of tokens.
struct Differences {
  std::vector<double> nats;
  std::vector<double> tokens = {};
  double num_tokens = 0;
};

Differences DifferencesOf(const ScoresOfSeed& scores, const HeldoutContrast& contrast,
                          size_t domain, bool first) {
  const size_t windows = scores.front()->domains[domain].windows.size();
  Differences differences{.nats = std::vector<double>(windows)};
  for (size_t w = 0; w < windows; ++w) {
    for (size_t i = 0; i < scores.size(); ++i) {
      const WindowLoss& loss = scores[i]->domains[domain].windows[w];
      differences.nats[w] += contrast.arms[i].sign * (first ? loss.first_loss : loss.later_loss);
    }
    const WindowLoss& window = scores.front()->domains[domain].windows[w];
    differences.tokens.push_back(
        static_cast<double>(first ? window.first_tokens : window.later_tokens));
    differences.num_tokens += differences.tokens.back();
  }
  return differences;
}

bool Contains(const DomainGroup& group, const std::string& domain) {
  return group.domains.empty() || group.domains.contains(domain);
}

double TokensOf(const HeldoutScore& score, const DomainGroup& group, bool first) {
  int64_t tokens = 0;
  for (const DomainWindows& domain : score.domains) {
    if (!Contains(group, domain.domain)) continue;
    for (const WindowLoss& window : domain.windows) {
      tokens += first ? window.first_tokens : window.later_tokens;
    }
  }
  return static_cast<double>(tokens);
}

// Returns the signed share of the tokens of the domain in its groups.
double DomainCoefficient(const HeldoutScore& score, const HeldoutContrast& contrast,
                         const std::string& domain, double domain_tokens, bool first) {
  double coefficient = 0;
  for (const DomainGroup& group : contrast.groups) {
    if (!Contains(group, domain)) continue;
    coefficient += group.coefficient * domain_tokens / TokensOf(score, group, first);
  }
  return coefficient;
}

Stratum DomainStratum(const ScoresOfSeed& scores, const HeldoutContrast& contrast, size_t domain) {
  const DomainWindows& windows = scores.front()->domains[domain];
  const int64_t block = WindowsOfBlock(static_cast<int64_t>(windows.windows.size()));
  Stratum stratum;
  for (const PositionGroup& position : contrast.positions) {
    const Differences differences = DifferencesOf(scores, contrast, domain, position.first);
    if (differences.num_tokens == 0) continue;
    const double coefficient =
        position.coefficient * DomainCoefficient(*scores.front(), contrast, windows.domain,
                                                 differences.num_tokens, position.first);
    if (coefficient == 0) continue;
    stratum.terms.push_back({.coefficient = coefficient,
                             .numerators = BlockSums(differences.nats, block),
                             .denominators = BlockSums(differences.tokens, block)});
  }
  return stratum;
}

absl::StatusOr<SeedMeasurement> MeasureHeldout(const ScoresOfSeed& scores,
                                               const HeldoutContrast& contrast) {
  for (size_t i = 1; i < scores.size(); ++i) {
    RETURN_IF_ERROR(CheckSameWindows(*scores[0], *scores[i], Describe(contrast.arms[i])));
  }
  for (const PositionGroup& position : contrast.positions) {
    for (const DomainGroup& group : contrast.groups) {
      if (TokensOf(*scores.front(), group, position.first) > 0) continue;
      return absl::NotFoundError("there are no held-out tokens at the compared positions");
    }
  }
  SeedMeasurement measurement;
  for (size_t domain = 0; domain < scores.front()->domains.size(); ++domain) {
    Stratum stratum = DomainStratum(scores, contrast, domain);
    if (!stratum.terms.empty()) measurement.push_back(std::move(stratum));
  }
  return measurement;
}

// Returns the signed sum of the losses at each step that all runs have.
std::map<int64_t, double> StepDifferences(const RunsOfSeed& runs,
                                          const std::vector<SignedArm>& arms) {
  std::map<int64_t, double> sums;
  std::map<int64_t, size_t> counts;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const v1::StepMetrics& step : runs[i]->metrics) {
      sums[step.step()] += arms[i].sign * step.loss_after_first_segment();
      ++counts[step.step()];
    }
  }
  std::erase_if(sums, [&](const auto& entry) { return counts[entry.first] < runs.size(); });
  return sums;
}

Stratum RangeStratum(const std::map<int64_t, double>& differences, const StepRange& range) {
  const double num_steps = static_cast<double>(differences.rbegin()->first);
  std::vector<double> values;
  for (const auto& [step, difference] : differences) {
    const double at = static_cast<double>(step);
    if (at > range.begin * num_steps && at <= range.end * num_steps) values.push_back(difference);
  }
  const int64_t block = StepsOfBlock(differences.rbegin()->first);
  const std::vector<double> ones(values.size(), 1.0);
  return {.terms = {{.coefficient = range.coefficient,
                     .numerators = BlockSums(values, block),
                     .denominators = BlockSums(ones, block)}}};
}

absl::StatusOr<SeedMeasurement> MeasureTraining(const RunsOfSeed& runs,
                                                const TrainingContrast& contrast) {
  const std::map<int64_t, double> differences = StepDifferences(runs, contrast.arms);
  SeedMeasurement measurement;
  for (const StepRange& range : contrast.ranges) {
    if (!differences.empty()) measurement.push_back(RangeStratum(differences, range));
    if (!differences.empty() && measurement.back().num_units() > 0) continue;
    return absl::NotFoundError("the runs have no common steps in the compared range");
  }
  return measurement;
}

bool SameShape(const SeedMeasurement& a, const SeedMeasurement& b) {
  return std::ranges::equal(a, b, {}, &Stratum::num_units, &Stratum::num_units);
}

absl::StatusOr<EffectEstimate> Estimate(const std::vector<SeedMeasurement>& seeds,
                                        const PairedBootstrapOptions& options) {
  for (const SeedMeasurement& seed : seeds) {
    if (SameShape(seeds.front(), seed)) continue;
    return absl::FailedPreconditionError(
        "runs with different seeds have different held-out windows or numbers of steps");
  }
  return EstimateEffect(seeds, options);
}

}  // namespace

std::vector<SignedArm> Difference(const std::string& first, const std::string& second,
                                  v1::OrderMode order) {
  return {{+1, first, order}, {-1, second, order}};
}

int64_t WindowsOfBlock(int64_t num_windows) { return std::clamp<int64_t>(num_windows / 4, 1, 8); }

int64_t StepsOfBlock(int64_t num_steps) { return std::max<int64_t>(num_steps / 50, 1); }

absl::StatusOr<std::vector<RunsOfSeed>> PairedRuns(const Evidence& evidence,
                                                   const std::vector<SignedArm>& arms) {
  std::set<uint64_t> seeds = SeedsOf(evidence, arms.front());
  for (const SignedArm& arm : arms) {
    const std::set<uint64_t> mine = SeedsOf(evidence, arm);
    if (mine.empty()) return absl::NotFoundError(absl::StrCat("no run of ", Describe(arm)));
    std::erase_if(seeds, [&](uint64_t seed) { return !mine.contains(seed); });
  }
  if (seeds.empty()) {
    return absl::NotFoundError(absl::StrCat("no seed with runs of all of ", NamesOf(arms)));
  }
  std::vector<RunsOfSeed> runs;
  for (const uint64_t seed : seeds) {
    RunsOfSeed& of_seed = runs.emplace_back();
    for (const SignedArm& arm : arms) of_seed.push_back(FindRun(evidence, arm, seed));
  }
  return runs;
}

absl::StatusOr<EffectEstimate> HeldoutEffect(const Evidence& evidence,
                                             const HeldoutContrast& contrast,
                                             const PairedBootstrapOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<RunsOfSeed> runs, PairedRuns(evidence, contrast.arms));
  ASSIGN_OR_RETURN(const ScoresOfSeed first, ScoresOf(runs.front(), contrast));
  std::vector<SeedMeasurement> seeds;
  for (const RunsOfSeed& of_seed : runs) {
    ASSIGN_OR_RETURN(const ScoresOfSeed scores, ScoresOf(of_seed, contrast));
    RETURN_IF_ERROR(CheckSameWindows(*first.front(), *scores.front(),
                                     absl::StrCat("seed ", of_seed.front()->seed)));
    ASSIGN_OR_RETURN(seeds.emplace_back(), MeasureHeldout(scores, contrast));
  }
  return Estimate(seeds, options);
}

absl::StatusOr<EffectEstimate> TrainingEffect(const Evidence& evidence,
                                              const TrainingContrast& contrast,
                                              const PairedBootstrapOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<RunsOfSeed> runs, PairedRuns(evidence, contrast.arms));
  std::vector<SeedMeasurement> seeds;
  for (const RunsOfSeed& of_seed : runs) {
    ASSIGN_OR_RETURN(seeds.emplace_back(), MeasureTraining(of_seed, contrast));
  }
  return Estimate(seeds, options);
}

absl::StatusOr<EffectEstimate> StatisticEffect(
    const Evidence& evidence, const std::vector<SignedArm>& arms,
    const std::function<std::optional<double>(const ArmResult&)>& statistic,
    const PairedBootstrapOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<RunsOfSeed> runs, PairedRuns(evidence, arms));
  std::vector<double> by_seed;
  for (const RunsOfSeed& of_seed : runs) {
    double sum = 0;
    bool complete = true;
    for (size_t i = 0; i < arms.size(); ++i) {
      const std::optional<double> value = statistic(*of_seed[i]);
      complete = complete && value.has_value();
      sum += arms[i].sign * value.value_or(0);
    }
    if (complete) by_seed.push_back(sum);
  }
  if (by_seed.empty()) {
    return absl::NotFoundError(
        absl::StrCat("the runs of ", Describe(arms.front()), " have no measurement"));
  }
  return EstimateOverSeeds(by_seed, options);
}

}  // namespace braid
