#include "reproduce/claim.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/number_text.h"
#include "reproduce/effect_text.h"

namespace braid {
namespace {

std::string Capitalized(std::string text) {
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

// Returns a remark on judged effects that were measured with one seed.
std::string SeedRemark(const Claim& claim) {
  bool intervals = false, bare = false;
  for (const ClaimPart& part : claim.parts) {
    if (!part.rule || !OfOneSeed(part)) continue;
    (HasInterval(*part.estimate) ? intervals : bare) = true;
  }
  return absl::StrCat(
      intervals ? " One seed: the intervals do not include the variation between seeds." : "",
      bare ? " One seed: effects with one number per run have no interval and cannot be judged."
           : "");
}

std::string Sentence(const Claim& claim) {
  std::vector<std::string> parts;
  for (const ClaimPart& part : claim.parts) {
    if (part.rule) parts.push_back(absl::StrCat(part.name, ": ", PartText(part)));
  }
  return absl::StrCat(Capitalized(VerdictName(claim.verdict)), ": ", claim.name, ". ",
                      Capitalized(absl::StrJoin(parts, "; ")), ".", SeedRemark(claim));
}

}  // namespace

bool OfOneSeed(const ClaimPart& part) { return part.estimate && part.estimate->by_seed.size() < 2; }

double SeedAllowance(const ClaimPart& part) {
  if (!part.estimate || !HasInterval(*part.estimate)) return 0;
  if (part.rule) return SeedAllowance(*part.estimate, *part.rule);
  if (!OfOneSeed(part)) return 0;
  if (part.unit == kAnswerUnit) return kAnswerGain.single_seed_allowance;
  return part.unit == kLossUnit ? kSingleSeedAllowance : 0;
}

bool NeedsSecondSeed(const Claim& claim) {
  bool wants = false;
  for (const ClaimPart& part : claim.parts) {
    if (!part.rule || part.verdict == Verdict::kShown) continue;
    if (!OfOneSeed(part) || part.estimate->has_interval) return false;
    wants = true;
  }
  return wants && claim.verdict == Verdict::kInconclusive;
}

std::string SeedText(const ClaimPart& part) {
  if (!part.estimate) return "";
  const bool one_seed = OfOneSeed(part);
  if (!HasInterval(*part.estimate)) return one_seed ? "(one seed, no interval)" : "(no interval)";
  const double allowance = SeedAllowance(part);
  if (allowance > 0) {
    return absl::StrCat("(\xC2\xB1", FormatFixed(allowance, 2), " for one seed)");
  }
  return one_seed ? "(one seed)" : "";
}

std::string PartText(const ClaimPart& part) {
  if (!part.estimate) return absl::StrCat("not measured (", part.missing, ")");
  const std::string seeds = SeedText(part);
  return absl::StrCat(EffectText(*part.estimate, part.unit), seeds.empty() ? "" : " ", seeds);
}

std::optional<double> ClaimBuilder::AddHeldout(const std::string& name,
                                               std::optional<VerdictRule> rule,
                                               HeldoutContrast contrast) {
  contrast.first_positions = settings_.segment_length;
  const auto estimate = HeldoutEffect(evidence_, contrast, settings_.bootstrap);
  AddPart(name, kLossUnit, rule, estimate);
  return estimate.ok() ? std::optional(estimate->effect) : std::nullopt;
}

void ClaimBuilder::AddHeldout(const std::vector<HeldoutPart>& parts) {
  for (const HeldoutPart& part : parts) AddHeldout(part.name, part.rule, part.contrast);
}

std::optional<double> ClaimBuilder::AddAnswers(const std::string& name,
                                               std::optional<VerdictRule> rule,
                                               const TaskContrast& contrast) {
  const auto estimate = TaskEffect(evidence_, contrast, settings_.bootstrap);
  AddPart(name, contrast.measure == TaskMeasure::kAnswerLoss ? kAnswerUnit : kAnswerShareUnit, rule,
          estimate);
  return estimate.ok() ? std::optional(estimate->effect) : std::nullopt;
}

void ClaimBuilder::AddTraining(const std::string& name, std::optional<VerdictRule> rule,
                               const TrainingContrast& contrast) {
  AddPart(name, kLossUnit, rule, TrainingEffect(evidence_, contrast, settings_.bootstrap));
}

void ClaimBuilder::AddStatistic(
    const std::string& name, const std::string& unit, std::optional<VerdictRule> rule,
    const std::vector<SignedArm>& arms,
    const std::function<std::optional<double>(const ArmResult&)>& statistic) {
  AddPart(name, unit, rule, StatisticEffect(evidence_, arms, statistic, settings_.bootstrap));
}

void ClaimBuilder::AddPart(const std::string& name, const std::string& unit,
                           std::optional<VerdictRule> rule,
                           const absl::StatusOr<EffectEstimate>& estimate) {
  ClaimPart part{.name = name, .unit = unit, .rule = rule};
  if (estimate.ok()) {
    part.estimate = *estimate;
    if (rule) part.verdict = Judge(*estimate, *rule);
  } else {
    part.missing = std::string(estimate.status().message());
  }
  claim_.parts.push_back(std::move(part));
}

void ClaimBuilder::AddShare(const std::string& name, const std::string& unit,
                            const absl::StatusOr<EffectEstimate>& estimate) {
  AddPart(name, unit, std::nullopt, estimate);
  claim_.parts.back().is_difference = false;
}

void ClaimBuilder::AddSeries(ClaimSeries series) {
  if (!series.values.empty()) claim_.series.push_back(std::move(series));
}

void ClaimBuilder::AddNote(std::string note) { claim_.notes.push_back(std::move(note)); }

void ClaimBuilder::AddCaution(std::string caution) {
  claim_.cautions.push_back(std::move(caution));
}

Claim ClaimBuilder::Finish() {
  std::vector<Verdict> verdicts;
  for (const ClaimPart& part : claim_.parts) {
    if (part.rule) verdicts.push_back(part.verdict);
  }
  claim_.verdict = JudgeAll(verdicts);
  claim_.sentence = Sentence(claim_);
  return std::move(claim_);
}

}  // namespace braid
