#include "cli/reproduce/claim.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace braid {
namespace {

constexpr char kNatsPerToken[] = "nats per token";

std::string PartText(const ClaimPart& part) {
  if (!part.estimate) return absl::StrCat(part.name, " not measured (", part.missing, ")");
  return absl::StrCat(part.name, " ", EffectText(*part.estimate, part.unit));
}

std::string Capitalized(std::string text) {
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

bool OfOneSeed(const ClaimPart& part) { return part.estimate && part.estimate->by_seed.size() < 2; }

std::string Sentence(const Claim& claim) {
  std::vector<std::string> parts;
  bool one_seed = false;
  for (const ClaimPart& part : claim.parts) {
    if (!part.rule) continue;
    parts.push_back(PartText(part));
    one_seed = one_seed || OfOneSeed(part);
  }
  return absl::StrCat(Capitalized(VerdictName(claim.verdict)), ": ", claim.name, ". ",
                      Capitalized(absl::StrJoin(parts, "; ")), ".",
                      one_seed ? " One seed: how seeds differ is not in the intervals." : "");
}

}  // namespace

std::string EffectText(const EffectEstimate& estimate, const std::string& unit) {
  const std::string interval =
      estimate.has_interval ? absl::StrFormat(" [%.3f, %.3f]", estimate.low, estimate.high) : "";
  return absl::StrFormat("%.3f%s %s", estimate.effect, interval, unit);
}

void ClaimBuilder::AddHeldout(const std::string& name, std::optional<VerdictRule> rule,
                              HeldoutContrast contrast) {
  contrast.first_positions = settings_.segment_length;
  AddPart(name, kNatsPerToken, rule, HeldoutEffect(evidence_, contrast, settings_.bootstrap));
}

void ClaimBuilder::AddTraining(const std::string& name, std::optional<VerdictRule> rule,
                               const TrainingContrast& contrast) {
  AddPart(name, kNatsPerToken, rule, TrainingEffect(evidence_, contrast, settings_.bootstrap));
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

void ClaimBuilder::AddSeries(ClaimSeries series) {
  if (!series.values.empty()) claim_.series.push_back(std::move(series));
}

void ClaimBuilder::AddNote(std::string note) { claim_.notes.push_back(std::move(note)); }

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
