// The command "model describe".
#include <iostream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "client/terminal/tables.h"
#include "model/config/model_config.h"

namespace braid {
namespace {

struct ModelDescribeOptions {
  std::string preset;
  bool list = false, forecast = false;
  int32_t world = 0, batch = 0, micro_batch = 0;
  double gflops = 0, visible_keys = 0;
  int64_t link = 0;
  ConfigOptions config;
};

v1::ForecastRequest ForecastOf(const ModelDescribeOptions& options) {
  v1::ForecastRequest request;
  request.set_world_size(options.world);
  request.set_global_batch_size(options.batch);
  request.set_micro_batch_size(options.micro_batch);
  request.set_gflops_per_rank(options.gflops);
  request.set_link_bytes_per_second(static_cast<double>(options.link));
  request.set_mean_visible_keys(options.visible_keys);
  return request;
}

absl::Status DescribeModel(Session& session, const ModelDescribeOptions& options) {
  if (options.list) {
    if (session.json) {
      std::cout << nlohmann::json(PresetNames()).dump(1) << std::endl;
    } else {
      std::cout << absl::StrJoin(PresetNames(), "\n") << std::endl;
    }
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

}  // namespace

void AddModelCommands(CommandLine& program) {
  auto options = std::make_shared<ModelDescribeOptions>();
  CLI::App* model = program.app.add_subcommand("model", "Inspect model configurations");
  model->require_subcommand(1);
  CLI::App* command =
      model->add_subcommand("describe", "Print the parameter counts and training cost of a model");
  command->add_option("preset", options->preset, "Named model, such as tiny/8E");
  CLI::Option* const list = command->add_flag("--list", options->list, "List the named models");
  CLI::Option* forecast = command->add_flag("--forecast", options->forecast,
                                            "Forecast memory, communication and time per rank");
  command->add_option("--world", options->world, "Forecast: number of ranks (default: 1)")
      ->check(PositiveInt32())
      ->needs(forecast);
  command
      ->add_option(
          "--batch", options->batch,
          "Forecast: sequences per step over all ranks (default: one micro-batch per rank)")
      ->check(PositiveInt32())
      ->needs(forecast);
  command
      ->add_option("--micro-batch", options->micro_batch,
                   "Forecast: sequences per forward and backward pass (default: 1)")
      ->check(PositiveInt32())
      ->needs(forecast);
  command
      ->add_option("--gflops", options->gflops,
                   "Forecast: throughput of a rank in 1e9 FLOP/s, needed for times")
      ->check(PositiveUpTo(1e12))
      ->needs(forecast);
  command
      ->add_option("--link", options->link,
                   "Forecast: bytes per second that a rank sends, such as 10GB, needed for times")
      ->transform(ByteSize())
      ->needs(forecast);
  command
      ->add_option("--visible-keys", options->visible_keys,
                   "Forecast: mean number of keys that attention sees from a position, fewer with "
                   "attention_mask DOCUMENT (default: half of the sequence)")
      ->check(PositiveUpTo(1e12))
      ->needs(forecast);
  options->config.AddTo(command, "ModelConfig");
  ExcludeUnused(command, list, {});
  command->footer(
      "Examples:\n"
      "  braid model describe 1.5B/32E\n"
      "  braid model describe 1.5B/32E --forecast --world 64 --gflops 10000 --link 25GB\n"
      "  braid model describe 0.3B --set routing.num_experts=4 --json\n"
      "  braid model describe tiny/8E --set routing.router=EXPERT_CHOICE_TOKEN \\\n"
      "      --set routing.moe_layers=1 --set routing.moe_layers=3");
  command->callback([&program, options] {
    program.action = [&program, options] { return DescribeModel(program.session, *options); };
  });
}

}  // namespace braid
