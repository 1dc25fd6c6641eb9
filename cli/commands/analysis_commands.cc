// eval, generate, report, model describe
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/arguments.h"
#include "cli/commands/command.h"
#include "cli/interrupt.h"
#include "cli/progress_board.h"
#include "cli/tables.h"
#include "formats/atomic_file.h"
#include "formats/status_macros.h"
#include "trainer/model_config.h"

namespace braid {
namespace {

absl::StatusOr<v1::InferenceRouting> ParseRouting(const std::string& name) {
  if (name.empty()) return v1::INFERENCE_ROUTING_UNSPECIFIED;
  if (name == "prompt") return v1::PROMPT_ROUTING;
  if (name == "segment") return v1::SEGMENT_ROUTING;
  return absl::InvalidArgumentError(
      absl::StrCat("--routing: got \"", name, "\", expected prompt or segment"));
}

struct EvalOptions {
  std::string model, dataset, routing;
  int32_t max_windows = 0, threads = 0;
};

absl::Status Eval(Session& session, const EvalOptions& options) {
  v1::EvaluateRequest request;
  request.set_model(ModelReference(options.model));
  if (!options.dataset.empty()) {
    request.set_dataset_dir(std::filesystem::absolute(options.dataset).lexically_normal().string());
  }
  ASSIGN_OR_RETURN(const v1::InferenceRouting routing, ParseRouting(options.routing));
  request.set_routing(routing);
  request.set_max_windows_per_domain(options.max_windows);
  request.set_num_threads(options.threads);

  ASSIGN_OR_RETURN(AnalysisClient client, session.Analysis());
  ProgressBoard board(std::cerr, IsTerminal(STDERR_FILENO));
  ASSIGN_OR_RETURN(const v1::Evaluation evaluation,
                   client.Evaluate(request, [&](const v1::EvaluateEvent& event) {
                     Progress progress;
                     progress.done = event.done();
                     progress.total = event.total();
                     progress.unit = "windows";
                     board.Update("evaluate", progress);
                   }));
  if (session.json) {
    std::cout << ToPrettyJson(evaluation) << std::endl;
  } else {
    PrintEvaluation(evaluation, std::cout);
  }
  return absl::OkStatus();
}

struct GenerateOptions {
  std::string model, prompt, routing;
  int32_t max_tokens = 128, threads = 0;
  double temperature = 0, top_p = 1;
  uint64_t seed = 0;
};

absl::Status Generate(Session& session, const GenerateOptions& options) {
  v1::GenerateRequest request;
  request.set_model(ModelReference(options.model));
  request.set_prompt(options.prompt != "-" ? options.prompt
                                           : std::string(std::istreambuf_iterator<char>(std::cin),
                                                         std::istreambuf_iterator<char>()));
  if (!IsUtf8(request.prompt())) {
    return absl::InvalidArgumentError("--prompt: standard input is not UTF-8; see iconv --help");
  }
  request.set_max_tokens(options.max_tokens);
  request.set_temperature(options.temperature);
  request.set_top_p(options.top_p);
  request.set_seed(options.seed);
  ASSIGN_OR_RETURN(const v1::InferenceRouting routing, ParseRouting(options.routing));
  request.set_routing(routing);
  request.set_num_threads(options.threads);

  ASSIGN_OR_RETURN(AnalysisClient client, session.Analysis());
  CatchInterrupts();
  bool first = true;
  const absl::Status status = client.Generate(request, [&](const v1::GenerateEvent& event) {
    // Not earlier: before a failure it would only hide the message.
    if (!session.json && std::exchange(first, false)) std::cout << request.prompt();
    if (session.json) {
      std::cout << ToJson(event) << std::endl;
    } else {
      std::cout << event.text() << std::flush;
      if (event.done()) {
        std::cout << std::endl;
        std::cerr << absl::StrFormat("[%d tokens, %.0f tokens/s]", event.num_tokens(),
                                     event.tokens_per_second())
                  << std::endl;
      }
    }
    return !Interrupted();
  });
  return Interrupted() ? absl::CancelledError("interrupted") : status;
}

struct ReportOptions {
  std::vector<std::string> runs;
  std::string output = "report.html";
};

absl::Status Report(Session& session, const ReportOptions& options) {
  v1::ReportRequest request;
  for (const std::string& run : options.runs) request.add_runs(ModelReference(run));
  ASSIGN_OR_RETURN(AnalysisClient client, session.Analysis());
  ASSIGN_OR_RETURN(const v1::ReportResponse response, client.Report(request));
  RETURN_IF_ERROR(WriteFileAtomically(options.output, response.html()));
  std::cout << "wrote " << options.output << std::endl;
  return absl::OkStatus();
}

struct DescribeOptions {
  std::string preset;
  bool list = false, forecast = false;
  int32_t world = 0, batch = 0, micro_batch = 0;
  double gflops = 0;
  int64_t link = 0;
  ConfigOptions config;
};

v1::ForecastRequest ForecastOf(const DescribeOptions& options) {
  v1::ForecastRequest request;
  request.set_world_size(options.world);
  request.set_global_batch_size(options.batch);
  request.set_micro_batch_size(options.micro_batch);
  request.set_gflops_per_rank(options.gflops);
  request.set_link_bytes_per_second(static_cast<double>(options.link));
  return request;
}

absl::Status Describe(Session& session, const DescribeOptions& options) {
  if (options.list) {
    std::cout << absl::StrJoin(PresetNames(), "\n") << std::endl;
    return absl::OkStatus();
  }
  v1::DescribeModelRequest request;
  request.mutable_model()->set_preset(options.preset);
  RETURN_IF_ERROR(options.config.Apply(request.mutable_model()));
  if (options.forecast) *request.mutable_forecast() = ForecastOf(options);
  ASSIGN_OR_RETURN(AnalysisClient client, session.Analysis());
  ASSIGN_OR_RETURN(const v1::DescribeModelResponse response, client.DescribeModel(request));
  if (session.json) {
    std::cout << ToPrettyJson(response) << std::endl;
  } else {
    std::cout << response.model().DebugString() << "\n";
    PrintModel(response, std::cout);
  }
  return absl::OkStatus();
}

void AddEval(Program& program) {
  auto options = std::make_shared<EvalOptions>();
  CLI::App* command = program.app.add_subcommand("eval", "Held-out perplexity by domain");
  command->add_option("model", options->model, "Run id, run directory or checkpoint directory")
      ->required();
  command->add_option("--data", options->dataset, "Dataset directory (default: the run's own)");
  command->add_option("--routing", options->routing, "segment (default) or prompt");
  command->add_option("--max-windows", options->max_windows, "At most so many windows a domain")
      ->check(PositiveInt32());
  command->add_option("--threads", options->threads, "Threads (all cores)")
      ->check(IntegerBetween(1, 1024));
  command->footer("Example:\n  braid eval run-000001 --routing prompt --json");
  command->callback([&program, options] {
    program.action = [&program, options] { return Eval(program.session, *options); };
  });
}

void AddGenerate(Program& program) {
  auto options = std::make_shared<GenerateOptions>();
  CLI::App* command = program.app.add_subcommand("generate", "Continue a prompt");
  command->add_option("model", options->model, "Run id, run directory or checkpoint directory")
      ->required();
  command->add_option("--prompt", options->prompt, "Text to continue; - reads standard input")
      ->required();
  command->add_option("--max-tokens", options->max_tokens, "Tokens to sample")
      ->capture_default_str()
      ->check(PositiveInt32());
  command->add_option("--temperature", options->temperature, "0 takes the most likely token")
      ->capture_default_str();
  command->add_option("--top-p", options->top_p, "Nucleus sampling mass")
      ->capture_default_str()
      ->check(PositiveUpTo(1));
  command->add_option("--seed", options->seed, "Seed of the sampler")
      ->capture_default_str()
      ->check(Seed());
  command->add_option("--routing", options->routing, "prompt (default) or segment");
  command->add_option("--threads", options->threads, "Threads (all cores)")
      ->check(IntegerBetween(1, 1024));
  command->footer(
      "Examples:\n"
      "  braid generate run-000001 --prompt 'The licence' --temperature 0.8 --top-p 0.9\n"
      "  head -c 500 README.md | braid generate run-000001 --prompt -");
  command->callback([&program, options] {
    program.action = [&program, options] { return Generate(program.session, *options); };
  });
}

void AddReport(Program& program) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* command = program.app.add_subcommand("report", "One self-contained HTML page on runs");
  command->add_option("runs", options->runs, "Run ids or run directories")->required();
  command->add_option("-o,--output", options->output, "File to write")->capture_default_str();
  command->footer("Example:\n  braid report run-000001 run-000002 -o compare.html");
  command->callback([&program, options] {
    program.action = [&program, options] { return Report(program.session, *options); };
  });
}

void AddModel(Program& program) {
  auto options = std::make_shared<DescribeOptions>();
  CLI::App* model = program.app.add_subcommand("model", "About models");
  model->require_subcommand(1);
  CLI::App* command = model->add_subcommand("describe", "Parameter counts and cost of a model");
  command->add_option("preset", options->preset, "Preset name");
  command->add_flag("--list", options->list, "List the presets");
  CLI::Option* forecast = command->add_flag("--forecast", options->forecast,
                                            "What training needs on each rank, and sends");
  command->add_option("--world", options->world, "Forecast: ranks (1)")
      ->check(PositiveInt32())
      ->needs(forecast);
  command->add_option("--batch", options->batch, "Forecast: sequences of one step over all ranks")
      ->check(PositiveInt32())
      ->needs(forecast);
  command->add_option("--micro-batch", options->micro_batch, "Forecast: sequences of one pass (1)")
      ->check(PositiveInt32())
      ->needs(forecast);
  command->add_option("--gflops", options->gflops, "Forecast: 1e9 FLOP/s that a rank reaches")
      ->check(PositiveUpTo(1e12))
      ->needs(forecast);
  command
      ->add_option("--link", options->link,
                   "Forecast: bytes a second that a rank sends, such as 10GB")
      ->transform(ByteSize())
      ->needs(forecast);
  options->config.AddTo(command, "ModelConfig");
  command->footer(
      "Examples:\n"
      "  braid model describe 1.5B/32E\n"
      "  braid model describe 1.5B/32E --forecast --world 64 --gflops 10000 --link 25GB\n"
      "  braid model describe 0.3B --set routing.num_experts=4 --json\n"
      "  braid model describe tiny/8E --set routing.router=EXPERT_CHOICE_TOKEN \\\n"
      "      --set routing.moe_layers=1 --set routing.moe_layers=3");
  command->callback([&program, options] {
    program.action = [&program, options] { return Describe(program.session, *options); };
  });
}

}  // namespace

void AddAnalysisCommands(Program& program) {
  AddEval(program);
  AddGenerate(program);
  AddReport(program);
  AddModel(program);
}

}  // namespace braid
