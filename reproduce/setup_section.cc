#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/number_text.h"
#include "client/terminal/tables.h"
#include "report/html_page.h"
#include "report/html_text.h"
#include "reproduce/page_sections.h"
#include "reproduce/reproduction_plan.h"

namespace braid {
namespace {

// Pairs of names and values in HTML.
using FactList = std::vector<std::pair<std::string, std::string>>;

std::string FactsTable(const FactList& facts) {
  std::string rows;
  for (const auto& [name, value] : facts) {
    absl::StrAppend(&rows, "<tr><th scope=\"row\">", name, "</th><td>", value, "</td></tr>\n");
  }
  return absl::StrCat("<table class=\"facts\"><tbody>\n", rows, "</tbody></table>\n");
}

std::string Code(const std::string& text) {
  return absl::StrCat("<code>", EscapeHtml(text), "</code>");
}

const char* OrderName(v1::OrderMode order) {
  return order == v1::SIMILARITY ? "similarity" : "random";
}

std::set<std::string> NamesOfArms(const Reproduction& reproduction) {
  std::set<std::string> names;
  for (const ReproducedRun& run : reproduction.runs) names.insert(run.arm);
  return names;
}

// Returns "480 steps, 983k tokens", with a remark if this is not so of all arms that were run.
std::string LengthText(const Reproduction& reproduction) {
  const std::set<std::string> names = NamesOfArms(reproduction);
  const Experiment& experiment = *reproduction.experiment;
  const bool others = std::ranges::any_of(experiment.arms, [&](const ArmDefinition& arm) {
    return names.contains(arm.name) && HasOtherSteps(experiment, arm);
  });
  return absl::StrCat(Counted(reproduction.num_steps, "step"), ", ",
                      FormatCount(static_cast<double>(reproduction.tokens_of_run)), " tokens",
                      others ? ", unless the description of the arm says otherwise" : "");
}

std::string Facts(const Reproduction& reproduction) {
  FactList facts = {
      {"plan", EscapeHtml(reproduction.plan)},
      {"command", Code(reproduction.command)},
      {"version", EscapeHtml(reproduction.version)},
      {"runs", absl::StrCat(reproduction.runs.size(), " with ", NumSeeds(reproduction),
                            NumSeeds(reproduction) == 1 ? " seed" : " seeds")},
      {reproduction.epochs > 0 ? "each base model" : "each", LengthText(reproduction)},
      {"time", FormatDuration(reproduction.seconds)},
  };
  if (reproduction.epochs > 0) {
    facts.emplace_back("fine-tuning",
                       TuningLengthText(reproduction.epochs, reproduction.tuning_steps));
  }
  if (!reproduction.corpus_paths.empty()) {
    std::vector<std::string> paths;
    for (const std::string& path : reproduction.corpus_paths) paths.push_back(Code(path));
    facts.emplace_back("corpus", absl::StrJoin(paths, "<br/>"));
  }
  for (const auto& [name, dir] : reproduction.dataset_dirs) {
    facts.emplace_back(absl::StrCat("dataset ", EscapeHtml(name)), Code(dir));
  }
  return FactsTable(facts);
}

FactList ModelFacts(const v1::ModelConfig& model, bool has_segments) {
  FactList facts = {{"layers", absl::StrCat(model.num_layers())},
                    {"width D", absl::StrCat(model.d_model())},
                    {"attention heads H", absl::StrCat(model.num_heads())},
                    {"FFN width F", absl::StrCat(model.d_ff())},
                    {"experts E", absl::StrCat(model.routing().num_experts())},
                    {"context L", absl::StrCat(model.sequence_length(), " tokens")},
                    {"vocabulary V", WithThousands(model.vocab_size())}};
  if (has_segments) {
    facts.emplace_back("segment length S",
                       absl::StrCat(model.routing().segment_length(), " tokens"));
  }
  return facts;
}

FactList TrainingFacts(const v1::RunSpec& spec) {
  const v1::OptimizerConfig& optimizer = spec.optimizer();
  FactList facts = {
      {"batch", absl::StrCat(spec.batch().global_batch_size(), " sequences")},
      {"optimizer",
       absl::StrFormat("AdamW, \xCE\xB2 %g and %g, \xCE\xB5 %g, weight decay %g, gradient norm at "
                       "most %g",
                       optimizer.beta1(), optimizer.beta2(), optimizer.epsilon(),
                       optimizer.weight_decay(), optimizer.clip_norm())},
      {"learning rate",
       absl::StrFormat("%g after a linear warm-up of %s of the steps, down to %s of it by a cosine",
                       optimizer.learning_rate(), FormatShortPercent(optimizer.warmup_fraction()),
                       FormatShortPercent(optimizer.final_lr_ratio()))}};
  if (const double dense = spec.upcycling().dense_fraction(); dense > 0) {
    facts.emplace_back("dense warm-up",
                       absl::StrCat(FormatShortPercent(dense), " of the steps, then upcycling"));
  }
  return facts;
}

std::string Configuration(const Reproduction& reproduction) {
  if (reproduction.spec.dataset_dir().empty()) return "";
  FactList facts =
      ModelFacts(reproduction.spec.model(), LeavesSegmentsOut(*reproduction.experiment));
  std::ranges::move(TrainingFacts(reproduction.spec), std::back_inserter(facts));
  return absl::StrCat("<h3>Configuration</h3>\n<p class=\"note\">Settings of the arm ",
                      Code(reproduction.experiment->main_arm),
                      ". The table of arms has the differences of other arms; "
                      "<code>reproduction.json</code> has all "
                      "settings.</p>\n",
                      FactsTable(facts));
}

std::string Notes(const Reproduction& reproduction) {
  std::string items;
  for (const std::string& note : reproduction.notes) {
    absl::StrAppend(&items, "<li>", EscapeHtml(note), "</li>\n");
  }
  if (items.empty()) return "";
  return absl::StrCat("<h3>Notes</h3>\n<ul class=\"findings\">\n", items, "</ul>\n");
}

std::string WindowsText(const Reproduction& reproduction, const std::string& domain) {
  const auto windows = reproduction.heldout_windows.find(domain);
  if (windows == reproduction.heldout_windows.end()) return FormatFixed(std::nan(""), 0);
  return WithThousands(windows->second);
}

std::string Domains(const Reproduction& reproduction) {
  if (reproduction.domains.empty()) return "<p>The corpus has no domains.</p>\n";
  double total = 0;
  for (const DomainProfile& domain : reproduction.domains) {
    total += static_cast<double>(domain.num_tokens);
  }
  HtmlTable table{.header = {"domain", "training tokens", "share", "held-out tokens",
                             "held-out windows", "similarity"},
                  .rows = {}};
  for (const DomainProfile& domain : reproduction.domains) {
    const double tokens = static_cast<double>(domain.num_tokens);
    table.rows.push_back(
        {{EscapeHtml(domain.name), FormatCount(tokens),
          FormatFixed(total > 0 ? 100 * tokens / total : std::nan(""), 1) + " %",
          FormatCount(static_cast<double>(domain.num_heldout_tokens)),
          WindowsText(reproduction, domain.name), FormatFixed(domain.similarity, 3)}});
  }
  return absl::StrCat(
      "<h3>Domains</h3>\n<p class=\"note\">Similarity: cosine of the mean embedding "
      "of a domain with that of all training text. All models are scored on all held-out "
      "windows.</p>\n",
      RenderTable(table));
}

// Returns the settings of an arm, with those of the split of its base model.
std::string ArmText(const ArmDefinition& arm) {
  if (!arm.tuning.has_value() || !arm.tuning->split.has_value()) return arm.SettingsText();
  return absl::StrCat(arm.SettingsText(), " split { ", arm.tuning->split->ShortDebugString(), " }");
}

// Returns the arms that were run, in the order of the plan.
std::string Arms(const Reproduction& reproduction) {
  const std::set<std::string> names = NamesOfArms(reproduction);
  HtmlTable table{.header = {"arm", "description", "settings"}, .rows = {}, .numeric = false};
  for (const ArmDefinition& arm : reproduction.experiment->arms) {
    if (!names.contains(arm.name)) continue;
    table.rows.push_back({{EscapeHtml(arm.name), EscapeHtml(arm.description), Code(ArmText(arm))}});
  }
  return table.rows.empty() ? "" : absl::StrCat("<h3>Arms</h3>\n", RenderTable(table));
}

// Returns whether models are scored with several numbers of experts per token, of which the main
// one is that of all experts.
bool ScoresSeveralNumbersOfExperts(const Experiment& experiment) {
  return std::ranges::any_of(experiment.arms, [&](const ArmDefinition& arm) {
    const std::vector<PlannedScore> scores = experiment.scores({.arm = arm});
    return scores.size() > 1 && scores.front().active_experts > 0 &&
           scores.front().active_experts == arm.num_experts();
  });
}

std::string Runs(const Reproduction& reproduction) {
  if (reproduction.runs.empty()) return "<p>There are no runs.</p>\n";
  HtmlTable table{
      .header = {"run", "order", "seed", "id", "training loss", "held-out loss", "bits per byte"},
      .rows = {}};
  for (const ReproducedRun& run : reproduction.runs) {
    if (!run.task.empty()) continue;
    table.rows.push_back(
        {{EscapeHtml(run.name), OrderName(run.order), absl::StrCat(run.seed), EscapeHtml(run.id),
          FormatFixed(run.training_loss, 3), FormatFixed(run.heldout_loss, 3),
          FormatFixed(run.heldout_bits_per_byte, 3)}});
  }
  return absl::StrCat(
      "<h3>Runs</h3>\n<p class=\"note\">Losses are in nats per token without first ",
      LeavesSegmentsOut(*reproduction.experiment) ? "segments" : "positions",
      ", the held-out loss also in bits per byte; the training loss is the mean over the last "
      "tenth of the steps. Losses of different seeds are never compared.",
      ScoresSeveralNumbersOfExperts(*reproduction.experiment)
          ? " The held-out loss of models that were scored with several numbers of experts per "
            "token is that with all experts, whatever number they were trained with."
          : "",
      "</p>\n", RenderTable(table));
}

}  // namespace

size_t NumSeeds(const Reproduction& reproduction) {
  std::set<uint64_t> seeds;
  for (const ReproducedRun& run : reproduction.runs) seeds.insert(run.seed);
  size_t most = seeds.size();
  if (most > 0) return most;
  for (const Claim& claim : reproduction.claims) {
    for (const ClaimPart& part : claim.parts) {
      if (part.estimate) most = std::max(most, part.estimate->by_seed.size());
    }
  }
  return most;
}

std::string SetupSection(const Reproduction& reproduction) {
  return Section("Setup",
                 "One corpus. With the same seed, all arms with the same data and batch have the "
                 "same sequences at every step, and the same initial values of all weights that "
                 "they have in common.",
                 absl::StrCat(Facts(reproduction), Configuration(reproduction), Notes(reproduction),
                              Domains(reproduction), Arms(reproduction), Runs(reproduction),
                              TunedRunsTable(reproduction)),
                 "setup");
}

}  // namespace braid
