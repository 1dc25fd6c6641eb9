// The command "analyze layers".
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/path_roots.h"
#include "braid/v1/analysis.pb.h"
#include "cli/analysis_call.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/evaluation_flags.h"
#include "client/terminal/table.h"
#include "client/terminal/terminal_text.h"

namespace braid {
namespace {

struct LayersOptions {
  std::string model, tasks_dir, output;
  std::vector<std::string> paths, probes, tasks;
  int32_t sentences = 10000, hidden_units = 0, threads = 0;
  std::optional<int32_t> words;
  uint64_t seed = 0;
  bool strict = false;
};

v1::AnalyzeLayersRequest RequestOf(const LayersOptions& options) {
  v1::AnalyzeLayersRequest request;
  request.set_model(ModelReference(options.model));
  for (const std::string& path : options.paths) request.add_paths(AbsolutePath(path));
  request.mutable_probes()->Assign(options.probes.begin(), options.probes.end());
  request.set_num_sentences(options.sentences);
  if (options.words.has_value()) request.set_num_words(*options.words);
  request.set_hidden_units(options.hidden_units);
  request.set_seed(options.seed);
  request.set_num_threads(options.threads);
  request.set_strict(options.strict);
  request.mutable_tasks()->Assign(options.tasks.begin(), options.tasks.end());
  request.set_tasks_dir(AbsolutePath(options.tasks_dir));
  return request;
}

std::string Percent(double share) { return absl::StrFormat("%.1f", 100 * share); }

void PrintProbes(const v1::LayerAnalysis& analysis, std::ostream& out) {
  if (analysis.probes().empty()) return;
  std::vector<std::string> header = {"LAYER"};
  std::vector<TableCell> majority = {"majority"}, classes = {"classes"},
                         training = {"training sentences"}, test = {"test sentences"};
  for (const v1::ProbeResult& probe : analysis.probes()) {
    header.push_back(probe.name());
    majority.emplace_back(Percent(probe.majority()));
    classes.emplace_back(absl::StrCat(probe.num_classes()));
    training.emplace_back(absl::StrCat(probe.num_training_sentences()));
    test.emplace_back(absl::StrCat(probe.num_test_sentences()));
  }
  Table table(header);
  for (int i = 0; i < analysis.probes(0).layers_size(); ++i) {
    const int layer = analysis.probes(0).layers(i).layer();
    std::vector<TableCell> row = {layer < 0 ? "embedding" : absl::StrCat(layer)};
    for (const v1::ProbeResult& probe : analysis.probes()) {
      const v1::LayerProbe& at = probe.layers(i);
      const double half = (at.interval().high() - at.interval().low()) / 2;
      row.emplace_back(Percent(at.accuracy()), absl::StrCat(" \xC2\xB1", Percent(half)));
    }
    table.AddRow(std::move(row));
  }
  table.AddRow(std::move(majority));
  table.AddRow(std::move(classes));
  table.AddRow(std::move(training));
  table.AddRow(std::move(test));
  out << "accuracy in percent on the test sentences, with half widths of 95 % intervals\n\n";
  table.Print(out, {.width = TerminalWidth(STDOUT_FILENO), .first_column = 0});
}

// Returns the most chosen layers, such as "3: 60.2 %, 1: 22.0 %".
std::string MostChosenLayers(const v1::LayerChoices& choices) {
  std::vector<std::pair<double, int>> shares;
  for (int i = 0; i < choices.shares_size(); ++i) shares.push_back({-choices.shares(i), i});
  std::ranges::sort(shares);
  std::string text;
  for (size_t i = 0; i < shares.size() && i < 4 && shares[i].first < 0; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", shares[i].second, ": ", Percent(-shares[i].first),
                    " %");
  }
  return text;
}

void PrintChoices(const v1::LayerAnalysis& analysis, std::ostream& out) {
  if (analysis.choices().empty()) return;
  Table table({"TASK", "PROMPTS", "LAYER", "MOST CHOSEN LAYERS"});
  for (const v1::TaskLayerChoices& task : analysis.choices()) {
    for (const v1::LayerChoices& layer : task.layers()) {
      table.AddRow({task.task(), absl::StrCat(task.num_prompts()), absl::StrCat(layer.layer()),
                    MostChosenLayers(layer)});
    }
  }
  if (!analysis.probes().empty()) out << "\n";
  table.Print(out, {.width = TerminalWidth(STDOUT_FILENO), .first_column = 0});
}

absl::Status AnalyzeLayersOf(Session& session, const LayersOptions& options) {
  const v1::AnalyzeLayersRequest request = RequestOf(options);
  return RunAnalysis<v1::AnalyzeLayersRequest, v1::AnalyzeLayersEvent>(
      session, &AnalysisClient::AnalyzeLayers, request,
      [](const v1::AnalyzeLayersEvent& event) { return event.probe(); }, "sentences",
      options.output,
      [](const v1::LayerAnalysis& analysis) {
        PrintProbes(analysis, std::cout);
        PrintChoices(analysis, std::cout);
        std::cout << std::flush;
      });
}

void AddProbing(CLI::App* command, LayersOptions* options) {
  command->add_option("--text", options->paths,
                      "Files and directories with the text whose sentences are classified, read as "
                      "by submit");
  command
      ->add_option("--probe", options->probes,
                   "Probe: length, words, swapped_words or swapped_clauses; repeatable (default: "
                   "all)")
      ->allow_extra_args(false);
  command
      ->add_option("--sentences", options->sentences,
                   "Sentences per probe: four fifths train it, the others test it")
      ->check(IntegerBetween(100, 1000000))
      ->capture_default_str();
  command
      ->add_option(
          "--words", options->words,
          "Classes of the probe `words`, at most half of --sentences (default: one for every 40 "
          "sentences, at most 1000)")
      ->check(IntegerBetween(2, 1000));
  command
      ->add_option("--hidden-units", options->hidden_units,
                   "Hidden units of the classifiers; 0: logistic regression")
      ->check(IntegerBetween(0, 4096))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Seed of the choice of sentences (default: 0)")
      ->check(Seed());
  for (const char* const name : {"--probe", "--sentences", "--words", "--hidden-units", "--seed"}) {
    command->get_option(name)->needs(command->get_option("--text"));
  }
}

}  // namespace

void AddAnalyzeLayers(CommandLine& program, CLI::App* analyze) {
  auto options = std::make_shared<LayersOptions>();
  CLI::App* command = analyze->add_subcommand(
      "layers",
      "Measure what each layer encodes, and which layers a model with mixed layers chooses");
  AddModel(command, &options->model);
  AddStrict(command, &options->strict);
  AddProbing(command, options.get());
  command
      ->add_option(
          "--task", options->tasks,
          "Count the choices of mixed layers on the prompts of this built-in task; repeatable")
      ->allow_extra_args(false);
  AddTaskFiles(command, "--data", &options->tasks_dir);
  command->get_option("--data")->needs(command->get_option("--task"));
  AddThreads(command, &options->threads);
  AddPage(command, &options->output);
  command->footer(
      "Examples:\n"
      "  braid analyze layers run-000001 --text books/\n"
      "  braid analyze layers run-000001 --text a.jsonl b.jsonl --sentences 2000 -o layers.html\n"
      "  braid analyze layers run-000004 --task sst2 --task agnews --data downstream/\n"
      "\n"
      "docs/analysis.md explains the probes.");
  command->callback([&program, options] {
    program.action = [&program, options] { return AnalyzeLayersOf(program.session, *options); };
  });
}

}  // namespace braid
