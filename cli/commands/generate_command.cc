// generate
#include <iostream>
#include <iterator>
#include <utility>

#include "absl/strings/str_format.h"
#include "cli/arguments.h"
#include "cli/commands/command.h"
#include "cli/interrupt.h"
#include "formats/status_macros.h"

namespace braid {
namespace {

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

  ASSIGN_OR_RETURN(GenerationClient client, session.Generation());
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

}  // namespace

void AddGenerateCommand(Program& program) {
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

}  // namespace braid
