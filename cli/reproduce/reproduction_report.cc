#include "cli/reproduce/reproduction_report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/reproduce/arm_statistics.h"

namespace braid {
namespace {

using nlohmann::json;

std::string OrderName(v1::OrderMode order) {
  return absl::AsciiStrToLower(v1::OrderMode_Name(order));
}

const char* RuleName(EffectRule rule) {
  switch (rule) {
    case EffectRule::kPositive:
      return "positive";
    case EffectRule::kEquivalent:
      return "equivalent";
    case EffectRule::kNotInferior:
      return "not inferior";
  }
  return "";
}

json EstimateJson(const EffectEstimate& estimate) {
  json object = {{"effect", estimate.effect},
                 {"by_seed", estimate.by_seed},
                 {"num_blocks", estimate.num_units}};
  if (estimate.has_interval) object["interval"] = {estimate.low, estimate.high};
  return object;
}

json PartJson(const ClaimPart& part) {
  json object = part.estimate ? EstimateJson(*part.estimate) : json::object();
  object["name"] = part.name;
  object["unit"] = part.unit;
  if (!part.estimate) object["missing"] = part.missing;
  if (!part.rule) return object;
  object["rule"] = {{"kind", RuleName(part.rule->kind)},
                    {"margin", part.rule->margin},
                    {"single_seed_allowance", part.rule->single_seed_allowance}};
  object["verdict"] = VerdictName(part.verdict);
  return object;
}

json SeriesJson(const ClaimSeries& series) {
  json object = {{"figure", series.figure.name}, {"name", series.name}, {"values", series.values}};
  if (series.figure.shape == SeriesShape::kCurve) {
    object["x"] = series.x;
    object["x_label"] = series.figure.x_label;
  } else {
    object["labels"] = series.labels;
  }
  return object;
}

json ClaimJson(const Claim& claim) {
  json object = {{"number", claim.number},
                 {"name", claim.name},
                 {"source", claim.source},
                 {"paper", claim.paper_result},
                 {"verdict", VerdictName(claim.verdict)},
                 {"sentence", claim.sentence},
                 {"parts", json::array()},
                 {"notes", claim.notes},
                 {"series", json::array()}};
  for (const ClaimPart& part : claim.parts) object["parts"].push_back(PartJson(part));
  for (const ClaimSeries& series : claim.series) object["series"].push_back(SeriesJson(series));
  return object;
}

json RunJson(const ReproducedRun& run) {
  return {{"name", run.name},
          {"arm", run.arm},
          {"order", OrderName(run.order)},
          {"seed", run.seed},
          {"id", run.id},
          {"training_loss", run.training_loss},
          {"heldout_loss", run.heldout_loss}};
}

double HeldoutLoss(const ArmResult& result, int32_t first_positions) {
  const HeldoutScore* const score = FindScore(result, ScoredRouting::kSegment, first_positions);
  if (score == nullptr) return std::numeric_limits<double>::quiet_NaN();
  double nats = 0;
  int64_t tokens = 0;
  for (const DomainLoss& domain : LossByDomain(*score)) {
    nats += domain.nats;
    tokens += domain.tokens;
  }
  return nats / static_cast<double>(tokens);
}

std::string EffectCell(const ClaimPart& part) {
  if (!part.estimate) return absl::StrCat("not measured: ", part.missing);
  return EffectText(*part.estimate, part.unit);
}

// Columns that the names of judged parts need.
size_t NameWidth(std::span<const Claim> claims) {
  size_t width = 0;
  for (const Claim& claim : claims) {
    for (const ClaimPart& part : claim.parts) {
      if (part.rule) width = std::max(width, part.name.size());
    }
  }
  return width;
}

}  // namespace

ReproducedRun ReproducedRunOf(const ArmResult& result, const std::string& name,
                              const std::string& id, int32_t first_positions) {
  return {.name = name,
          .arm = result.arm,
          .order = result.order,
          .seed = result.seed,
          .id = id,
          .training_loss = result.metrics.empty() ? std::numeric_limits<double>::quiet_NaN()
                                                  : FinalLoss(result.metrics),
          .heldout_loss = HeldoutLoss(result, first_positions)};
}

std::string ReproductionJson(const Reproduction& reproduction) {
  json object = {{"plan", reproduction.plan},
                 {"command", reproduction.command},
                 {"version", reproduction.version},
                 {"num_steps", reproduction.num_steps},
                 {"tokens_of_run", reproduction.tokens_of_run},
                 {"confidence", reproduction.confidence},
                 {"notes", reproduction.notes},
                 {"seconds", reproduction.seconds},
                 {"domains", json::array()},
                 {"runs", json::array()},
                 {"claims", json::array()}};
  for (const DomainProfile& domain : reproduction.domains) {
    object["domains"].push_back({{"name", domain.name},
                                 {"num_tokens", domain.num_tokens},
                                 {"num_heldout_tokens", domain.num_heldout_tokens},
                                 {"num_heldout_sources", domain.num_heldout_sources},
                                 {"similarity", domain.similarity}});
  }
  for (const ReproducedRun& run : reproduction.runs) object["runs"].push_back(RunJson(run));
  for (const Claim& claim : reproduction.claims) object["claims"].push_back(ClaimJson(claim));
  // Names of domains come from outside.
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

void PrintClaims(std::span<const Claim> claims, std::ostream& out) {
  const int width = static_cast<int>(NameWidth(claims));
  for (const Claim& claim : claims) {
    out << absl::StrFormat("%2d. %s: %s\n", claim.number, claim.name,
                           absl::AsciiStrToUpper(VerdictName(claim.verdict)));
    for (const ClaimPart& part : claim.parts) {
      if (!part.rule) continue;
      const std::string verdict = part.estimate ? VerdictName(part.verdict) : "";
      const std::string line =
          absl::StrFormat("    %-*s  %-36s  %s", width, part.name, EffectCell(part), verdict);
      out << absl::StripTrailingAsciiWhitespace(line) << "\n";
    }
  }
}

}  // namespace braid
