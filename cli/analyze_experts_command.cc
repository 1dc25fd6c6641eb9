// The command "analyze experts".
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/path_roots.h"
#include "base/status_macros.h"
#include "braid/v1/analysis.pb.h"
#include "cli/analysis_call.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/evaluation_flags.h"
#include "cli/field_flags.h"
#include "client/terminal/table.h"
#include "client/terminal/terminal_text.h"

namespace braid {
namespace {

constexpr int kShownExperts = 4;

struct ExpertsOptions {
  std::string model, dataset, tasks_dir, output;
  std::vector<std::string> tasks;
  int32_t max_windows = 0, threads = 0;
  std::optional<uint64_t> routing_seed;
  bool strict = false;
  FieldFlags split{"braid.v1.ExpertSplit", std::nullopt};
};

absl::StatusOr<v1::AnalyzeExpertsRequest> RequestOf(Session& session,
                                                    const ExpertsOptions& options) {
  v1::AnalyzeExpertsRequest request;
  request.set_model(ModelReference(options.model));
  if (!options.dataset.empty()) {
    ASSIGN_OR_RETURN(*request.mutable_dataset_dir(), DatasetDirectory(session, options.dataset));
  }
  if (options.routing_seed.has_value()) request.set_routing_seed(*options.routing_seed);
  request.set_max_windows_per_domain(options.max_windows);
  request.set_num_threads(options.threads);
  request.set_strict(options.strict);
  request.mutable_tasks()->Assign(options.tasks.begin(), options.tasks.end());
  request.set_tasks_dir(AbsolutePath(options.tasks_dir));
  RETURN_IF_ERROR(options.split.Apply(request.mutable_split()));
  request.mutable_layers()->Swap(request.mutable_split()->mutable_layers());
  return request;
}

std::string Share(double share) { return absl::StrFormat("%.3f", share); }

// Returns the experts with most choices, such as "3: 14.2 %, 7: 11.0 %".
std::string MostChosen(const v1::DomainRouting& domain) {
  std::vector<int> experts(domain.weights_size());
  std::iota(experts.begin(), experts.end(), 0);
  std::ranges::stable_sort(experts, std::greater<>(), [&](int e) { return domain.weights(e); });
  experts.resize(std::min<size_t>(experts.size(), kShownExperts));
  return absl::StrJoin(experts, ", ", [&](std::string* out, int e) {
    absl::StrAppend(out, absl::StrFormat("%d: %.1f %%", e, 100 * domain.weights(e)));
  });
}

void PrintActivity(const v1::ExpertActivity& activity, std::ostream& out) {
  out << (activity.varying_experts() ? "a varying number" : absl::StrCat(activity.active_experts()))
      << " of " << activity.num_experts() << " experts on " << activity.num_tokens()
      << " tokens; shares of the activation mass and of the active units\n"
      << "in the chosen experts, and in as many of " << activity.num_experts()
      << " random groups of units\n\n";
  Table shares({"LAYER", "MASS", "RANDOM", "ACTIVE", "RANDOM"});
  Table choices({"LAYER", "DOMAIN", "TOKENS", "MOST CHOSEN EXPERTS"});
  for (const v1::LayerExpertActivity& layer : activity.layers()) {
    const std::string number = absl::StrCat(layer.layer());
    shares.AddRow({number, Share(layer.mass_share()), Share(layer.random_mass_share()),
                   Share(layer.active_share()), Share(layer.random_active_share())});
    for (const v1::DomainRouting& domain : layer.domains()) {
      choices.AddRow(
          {number, domain.domain(), absl::StrCat(domain.num_decisions()), MostChosen(domain)});
    }
  }
  shares.Print(out);
  out << "\n";
  choices.Print(out, {.width = TerminalWidth(STDOUT_FILENO), .first_column = 0});
  if (!activity.drift().empty()) {
    Table drift({"LAYER", "STEPS", "CHANGED CHOICES"});
    for (const v1::ChoiceDrift& one : activity.drift()) {
      drift.AddRow({absl::StrCat(one.layer()), absl::StrCat(one.from_step(), " to ", one.to_step()),
                    Share(one.changed_share())});
    }
    out << "\n";
    drift.Print(out);
  }
  out << std::flush;
}

absl::Status AnalyzeExperts(Session& session, const ExpertsOptions& options) {
  ASSIGN_OR_RETURN(const v1::AnalyzeExpertsRequest request, RequestOf(session, options));
  return RunAnalysis<v1::AnalyzeExpertsRequest, v1::AnalyzeExpertsEvent>(
      session, &AnalysisClient::AnalyzeExperts, request,
      [](const v1::AnalyzeExpertsEvent&) { return "measure"; }, "windows", options.output,
      [](const v1::ExpertActivity& activity) { PrintActivity(activity, std::cout); });
}

// Adds the settings of a split that make experts of a dense model without training.
void AddSplit(CLI::App* command, FieldFlags* split) {
  split->Add(command, "--experts", "num_experts")
      ->description("Experts per layer of a dense model; must divide d_ff (default: 16)");
  split->Add(command, "--split", "method")->type_name("contiguous|random|keys");
  split->Add(command, "--active-experts", "active_experts");
  split->Add(command, "--layers", "layers")->delimiter(',');
}

}  // namespace

void AddAnalyzeExperts(CommandLine& program, CLI::App* analyze) {
  auto options = std::make_shared<ExpertsOptions>();
  CLI::App* command = analyze->add_subcommand(
      "experts", "Measure the share of activations in the experts that tokens choose");
  AddModel(command, &options->model);
  AddStrict(command, &options->strict);
  AddHeldoutText(command, &options->dataset);
  AddSplit(command, &options->split);
  AddRoutingSeed(command, &options->routing_seed);
  AddMaxWindows(command, &options->max_windows);
  AddThreads(command, &options->threads);
  command
      ->add_option("--task", options->tasks,
                   "Built-in task whose prompts are measured as one more domain; repeatable")
      ->allow_extra_args(false);
  AddTaskFiles(command, "--task-data", &options->tasks_dir);
  command->get_option("--task-data")->needs(command->get_option("--task"));
  AddPage(command, &options->output);
  command->footer(
      "The FFNs of a dense model are split for the analysis, by default into 16 experts by keys;\n"
      "no checkpoint is written. A model with the router TOKEN_CHOICE is analyzed with its own\n"
      "experts; only --active-experts and --layers apply to it.\n"
      "\n"
      "Examples:\n"
      "  braid analyze experts run-000001 -o experts.html\n"
      "  braid analyze experts run-000001 --experts 64 --active-experts 16 --layers=-2\n"
      "  braid analyze experts llama-checkpoint --data pack-0123456789abcdef --json");
  command->callback([&program, options] {
    program.action = [&program, options] { return AnalyzeExperts(program.session, *options); };
  });
}

}  // namespace braid
