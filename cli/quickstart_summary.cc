#include "cli/quickstart_summary.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/number_text.h"
#include "client/terminal/tables.h"

namespace braid {
namespace {

using Json = nlohmann::json;

Json Domains(const v1::Evaluation& dense, const v1::Evaluation& moe) {
  Json domains = Json::object();
  for (const v1::DomainEvaluation& domain : dense.domains()) {
    // Its perplexity is not known.
    if (domain.num_tokens_after_first_segment() == 0) continue;
    domains[domain.domain()] = {{"dense_perplexity", domain.perplexity_after_first_segment()},
                                {"num_tokens", domain.num_tokens_after_first_segment()}};
  }
  for (const v1::DomainEvaluation& domain : moe.domains()) {
    if (domain.num_tokens_after_first_segment() == 0) continue;
    domains[domain.domain()]["moe_perplexity"] = domain.perplexity_after_first_segment();
  }
  return domains;
}

double MedianTokensPerSecond(std::span<const v1::StepMetrics> metrics) {
  std::vector<double> rates;
  for (const v1::StepMetrics& step : metrics) rates.push_back(step.tokens_per_second());
  if (rates.empty()) return 0;
  std::nth_element(rates.begin(), rates.begin() + rates.size() / 2, rates.end());
  return rates[rates.size() / 2];
}

Json Runs(const QuickstartResults& results) {
  Json runs = Json::object();
  for (const auto& [name, result] : results) {
    runs[name] = {{"id", result.run.id()},
                  {"tokens_per_second", MedianTokensPerSecond(result.metrics)},
                  {"final_loss", result.run.latest().loss_after_first_segment()}};
  }
  return runs;
}

std::string SettingsText(const QuickstartSettings& settings) {
  return absl::StrCat(
      settings.paths.empty() ? "this machine's text" : absl::StrJoin(settings.paths, ", "), " in ",
      Counted(settings.num_steps, "step"));
}

}  // namespace

double TrainingGain(std::span<const v1::StepMetrics> dense, std::span<const v1::StepMetrics> moe) {
  std::map<int64_t, double> dense_loss;
  for (const v1::StepMetrics& step : dense) {
    dense_loss[step.step()] = step.loss_after_first_segment();
  }
  const int64_t last_step = moe.empty() ? 0 : moe.back().step();
  double sum = 0;
  int64_t count = 0;
  for (const v1::StepMetrics& step : moe) {
    const auto paired = dense_loss.find(step.step());
    if (2 * step.step() <= last_step || paired == dense_loss.end()) continue;
    sum += paired->second - step.loss_after_first_segment();
    ++count;
  }
  return count == 0 ? 0 : sum / count;
}

double HeldoutGain(const v1::Evaluation& dense, const v1::Evaluation& moe) {
  return dense.total().loss_after_first_segment() - moe.total().loss_after_first_segment();
}

std::string SummaryJson(const QuickstartSettings& settings, const v1::Job& similarity_job,
                        const QuickstartResults& results, double seconds) {
  const auto& dense = results.at("dense-similarity");
  const auto& moe = results.at("moe-similarity");
  const auto& random_dense = results.at("dense-random");
  const auto& random_moe = results.at("moe-random");
  const v1::JobResult& corpus = similarity_job.result();
  const Json summary = {
      {"corpus", settings.paths},
      {"steps", settings.num_steps},
      {"domains", Domains(dense.evaluation, moe.evaluation)},
      {"dense_perplexity", dense.evaluation.total().perplexity_after_first_segment()},
      {"moe_perplexity", moe.evaluation.total().perplexity_after_first_segment()},
      {"gain_nats",
       {{"similarity", TrainingGain(dense.metrics, moe.metrics)},
        {"random", TrainingGain(random_dense.metrics, random_moe.metrics)}}},
      {"heldout_gain_nats",
       {{"similarity", HeldoutGain(dense.evaluation, moe.evaluation)},
        {"random", HeldoutGain(random_dense.evaluation, random_moe.evaluation)}}},
      {"adjacent_cosine",
       {{"similarity", corpus.adjacent_cosine()}, {"random", corpus.random_adjacent_cosine()}}},
      {"recall_at_k", corpus.recall_at_k()},
      {"tokens_per_second", MedianTokensPerSecond(moe.metrics)},
      {"runs", Runs(results)},
      {"num_documents", corpus.num_documents()},
      {"num_corpus_tokens", corpus.num_tokens()},
      {"num_training_tokens", moe.run.latest().num_tokens()},
      {"seconds", seconds},
  };
  return summary.dump(2) + "\n";
}

absl::Status CheckSameSettings(const std::string& summary_json,
                               const std::filesystem::path& workdir,
                               const QuickstartSettings& settings) {
  const Json summary = Json::parse(summary_json, nullptr, /*allow_exceptions=*/false);
  if (!summary.is_object()) {
    return absl::DataLossError(absl::StrCat((workdir / "summary.json").string(),
                                            " is damaged; remove it to write it again"));
  }
  const QuickstartSettings stored = {.paths = summary.value("corpus", settings.paths),
                                     .num_steps = summary.value("steps", settings.num_steps)};
  if (stored.paths == settings.paths && stored.num_steps == settings.num_steps) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--workdir: got ", workdir.string(), ", which holds the quickstart on ", SettingsText(stored),
      ", expected another directory for ", SettingsText(settings)));
}

std::string RunIdOf(const std::string& summary_json, const std::string& name) {
  return Json::parse(summary_json)["runs"][name]["id"];
}

void PrintSummary(const std::string& summary_json, std::ostream& out) {
  const Json summary = Json::parse(summary_json);
  const auto number = [](const Json& value) {
    return absl::StrFormat("%.2f", value.get<double>());
  };
  const auto nats = [](const Json& value) { return absl::StrFormat("%.3f", value.get<double>()); };
  std::vector<std::vector<std::string>> rows = {{"HELD-OUT PERPLEXITY", "DENSE", "SOFT-MOE 8E"}};
  for (const auto& [name, domain] : summary["domains"].items()) {
    rows.push_back({name, number(domain["dense_perplexity"]), number(domain["moe_perplexity"])});
  }
  rows.push_back({"all", number(summary["dense_perplexity"]), number(summary["moe_perplexity"])});
  PrintTable(rows, out);
  out << "\n";
  PrintTable(
      {{"GAIN, NATS PER TOKEN", "SIMILARITY ORDER", "RANDOM ORDER"},
       {"training", nats(summary["gain_nats"]["similarity"]), nats(summary["gain_nats"]["random"])},
       {"held-out", nats(summary["heldout_gain_nats"]["similarity"]),
        nats(summary["heldout_gain_nats"]["random"])},
       {"adjacent cosine", nats(summary["adjacent_cosine"]["similarity"]),
        nats(summary["adjacent_cosine"]["random"])}},
      out);
}

}  // namespace braid
