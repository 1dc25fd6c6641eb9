#include "reproduce/reproduction_report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proto/message_json.h"
#include "reproduce/arm_statistics.h"

namespace braid {
namespace {

using Json = nlohmann::json;

std::string OrderKey(v1::OrderMode order) {
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

Json EstimateJson(const EffectEstimate& estimate) {
  Json object = {{"effect", estimate.effect},
                 {"by_seed", estimate.by_seed},
                 {"num_blocks", estimate.num_units}};
  if (estimate.has_interval) object["interval"] = {estimate.low, estimate.high};
  return object;
}

Json PartJson(const ClaimPart& part) {
  Json object = part.estimate ? EstimateJson(*part.estimate) : Json::object();
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

Json SeriesJson(const ClaimSeries& series) {
  Json object = {{"figure", series.figure.name}, {"name", series.name}, {"values", series.values}};
  if (series.figure.shape == SeriesShape::kCurve) {
    object["x"] = series.x;
    object["x_label"] = series.figure.x_label;
  } else {
    object["labels"] = series.labels;
  }
  return object;
}

Json ClaimJson(const Claim& claim) {
  Json object = {{"number", claim.number},
                 {"name", claim.name},
                 {"source", claim.source},
                 {"paper", claim.paper_result},
                 {"verdict", VerdictName(claim.verdict)},
                 {"sentence", claim.sentence},
                 {"parts", Json::array()},
                 {"notes", claim.notes},
                 {"cautions", claim.cautions},
                 {"series", Json::array()}};
  for (const ClaimPart& part : claim.parts) object["parts"].push_back(PartJson(part));
  for (const ClaimSeries& series : claim.series) object["series"].push_back(SeriesJson(series));
  return object;
}

Json RunJson(const ReproducedRun& run) {
  Json object = {{"name", run.name},
                 {"arm", run.arm},
                 {"order", OrderKey(run.order)},
                 {"seed", run.seed},
                 {"id", run.id},
                 {"training_loss", run.training_loss},
                 {"heldout_loss", run.heldout_loss},
                 {"heldout_bits_per_byte", run.heldout_bits_per_byte}};
  if (run.task.empty()) return object;
  object["task"] = run.task;
  object["scores"] = Json::array();
  for (const TaskSummary& score : run.tasks) {
    object["scores"].push_back({{"task", score.task},
                                {"scoring", score.scoring},
                                {"num_examples", score.num_examples},
                                {"answer_loss", score.answer_loss},
                                {"figure", score.figure}});
  }
  return object;
}

// Returns NaN for no values.
double MeanOf(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Returns the task's main figure: a mean over examples, or BLEU where only all texts together have
// figures.
double FigureOf(const TaskScore& score) {
  const auto bleu = score.metrics.find("bleu");
  return score.figures.empty() && bleu != score.metrics.end() ? bleu->second
                                                              : MeanOf(score.figures);
}

TaskSummary SummaryOf(const TaskScore& score) {
  return {.task = score.task,
          .scoring = score.scoring,
          .num_examples = static_cast<int64_t>(score.answer_losses.size()),
          .answer_loss = MeanOf(score.answer_losses),
          .figure = FigureOf(score)};
}

double HeldoutLoss(const ArmResult& result, const PlannedScore& planned) {
  const HeldoutScore* const score =
      FindScore(result, planned.routing, planned.first_positions, planned.active_experts);
  return score == nullptr ? std::numeric_limits<double>::quiet_NaN() : MeanLoss(*score);
}

Json DomainJson(const Reproduction& reproduction, const DomainProfile& domain) {
  Json object = {{"name", domain.name},
                 {"num_tokens", domain.num_tokens},
                 {"num_heldout_tokens", domain.num_heldout_tokens},
                 {"num_heldout_sources", domain.num_heldout_sources},
                 {"similarity", domain.similarity}};
  const auto windows = reproduction.heldout_windows.find(domain.name);
  if (windows != reproduction.heldout_windows.end()) {
    object["num_heldout_windows"] = windows->second;
  }
  return object;
}

}  // namespace

ReproducedRun ReproducedRunOf(const ArmResult& result, const std::string& name,
                              const std::string& id, const PlannedScore& score,
                              const ScoredTexts& texts) {
  const double heldout_loss = HeldoutLoss(result, score);
  ReproducedRun run{
      .name = name,
      .arm = result.arm,
      .order = result.order,
      .seed = result.seed,
      .id = id,
      .training_loss = result.metrics.empty() ? std::numeric_limits<double>::quiet_NaN()
                                              : FinalLoss(result.metrics),
      .heldout_loss = heldout_loss,
      .heldout_bits_per_byte = BitsPerByte(heldout_loss, texts, score.first_positions),
      .task = result.task};
  for (const TaskScore& task : result.tasks) run.tasks.push_back(SummaryOf(task));
  return run;
}

std::map<std::string, int64_t> HeldoutWindows(std::span<const ArmResult> results) {
  std::map<std::string, int64_t> windows;
  const auto scored = std::ranges::find_if(
      results, [](const ArmResult& result) { return !result.heldout.empty(); });
  if (scored == results.end()) return windows;
  for (const DomainWindows& domain : scored->heldout.front().domains) {
    windows[domain.domain] = static_cast<int64_t>(domain.windows.size());
  }
  return windows;
}

std::string ReproductionJson(const Reproduction& reproduction) {
  Json object = {{"experiment", reproduction.experiment->name},
                 {"plan", reproduction.plan},
                 {"command", reproduction.command},
                 {"version", reproduction.version},
                 {"num_steps", reproduction.num_steps},
                 {"tokens_of_run", reproduction.tokens_of_run},
                 {"confidence", reproduction.confidence},
                 {"corpus", reproduction.corpus_paths},
                 {"datasets", reproduction.dataset_dirs},
                 {"spec", Json::parse(MessageToJson(reproduction.spec).value_or("null"), nullptr,
                                      /*allow_exceptions=*/false)},
                 {"notes", reproduction.notes},
                 {"seconds", reproduction.seconds},
                 {"domains", Json::array()},
                 {"runs", Json::array()},
                 {"claims", Json::array()}};
  if (reproduction.epochs > 0 && reproduction.tuning_steps > 0) {
    object["tuning_steps"] = reproduction.tuning_steps;
  } else if (reproduction.epochs > 0) {
    object["epochs"] = reproduction.epochs;
  }
  for (const DomainProfile& domain : reproduction.domains) {
    object["domains"].push_back(DomainJson(reproduction, domain));
  }
  for (const ReproducedRun& run : reproduction.runs) object["runs"].push_back(RunJson(run));
  for (const Claim& claim : reproduction.claims) object["claims"].push_back(ClaimJson(claim));
  // Names of domains are external text, which may not be UTF-8.
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace braid
