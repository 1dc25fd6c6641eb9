// generate
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <iostream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/generation_json.h"
#include "cli/prompt_batch.h"
#include "cli/prompt_list.h"
#include "client/terminal/generation_printer.h"
#include "client/terminal/prompt_dialogue.h"
#include "client/terminal/prompt_editor.h"
#include "client/terminal/terminal_text.h"
#include "rpc/interrupt.h"

namespace braid {
namespace {

struct GenerateOptions {
  std::string model, prompt, prompts, routing;
  bool has_prompt = false, show_routing = false, together = false;
  int32_t max_tokens = 128, threads = 0, parallel = 1;
  double temperature = 0, top_p = 1;
  uint64_t seed = 0;
};

absl::StatusOr<v1::GenerateRequest> RequestOf(const GenerateOptions& options) {
  v1::GenerateRequest request;
  request.set_model(ModelReference(options.model));
  request.set_max_tokens(options.max_tokens);
  request.set_temperature(options.temperature);
  request.set_top_p(options.top_p);
  request.set_seed(options.seed);
  request.set_want_routing(options.show_routing);
  ASSIGN_OR_RETURN(const v1::InferenceRouting routing, ParseRouting(options.routing));
  request.set_routing(routing);
  return request;
}

GenerationPrinter NewPrinter(const v1::GenerateRequest& request) {
  return GenerationPrinter({.terminal = IsTerminal(STDOUT_FILENO),
                            .blocks = ShowsUnicode(),
                            .routing_asked = request.want_routing()},
                           std::cout, std::cerr);
}

absl::Status ContinueOne(Session& session, const GenerateOptions& options,
                         v1::GenerateRequest request) {
  request.set_prompt(options.prompt != "-" ? options.prompt
                                           : std::string(std::istreambuf_iterator<char>(std::cin),
                                                         std::istreambuf_iterator<char>()));
  if (!IsValidUtf8(request.prompt())) {
    return absl::InvalidArgumentError("--prompt: standard input is not UTF-8; see iconv --help");
  }
  ASSIGN_OR_RETURN(GenerationClient client, session.Generation());
  CatchInterrupts();
  GenerationPrinter printer = NewPrinter(request);
  bool first = true;
  const absl::Status status = client.Generate(request, [&](const v1::GenerateEvent& event) {
    if (session.json) {
      std::cout << EventJson(event).dump() << std::endl;
    } else {
      // Not earlier: before a failure it would only hide the message.
      if (std::exchange(first, false)) printer.Print(request.prompt());
      printer.Add(event);
    }
    return std::cout.good() && !Interrupted();
  });
  printer.EndLine();
  return status;
}

absl::Status ContinueMany(Session& session, const GenerateOptions& options,
                          const v1::GenerateRequest& request) {
  ASSIGN_OR_RETURN(const std::vector<std::string> prompts, ReadPromptFile(options.prompts));
  session.options.serving.active = options.parallel;
  ASSIGN_OR_RETURN(GenerationClient client, session.Generation());
  CatchInterrupts();
  const PromptBatch batch{prompts, request, options.parallel};
  if (session.json) return ContinueAsJson(client, batch, std::cout, std::cerr);
  return ContinueAsText(client, batch, NewPrinter(request), std::cout, std::cerr);
}

// One prompt of the dialogue: its failure is told, and the dialogue goes on, unless SIGTERM ends
// it: then false.
bool ContinueTyped(GenerationClient& client, const v1::GenerateRequest& request) {
  GenerationPrinter printer = NewPrinter(request);
  const absl::Status status = client.Generate(request, [&](const v1::GenerateEvent& event) {
    printer.Add(event);
    return !Interrupted();
  });
  printer.EndLine();
  if (Terminated()) return false;
  if (Interrupted()) {
    std::cerr << "[stopped]" << std::endl;
  } else if (!status.ok()) {
    std::cerr << "braid: " << ErrorText(status) << std::endl;
  }
  ForgetInterrupt();  // it was the text's
  return true;
}

// False at its end.
bool ObeyTyped(const std::string& line, v1::GenerateRequest* request) {
  const absl::StatusOr<DialogueAction> action = ApplyDialogueCommand(line, request);
  if (!action.ok()) {
    std::cerr << action.status().message() << std::endl;
  } else if (*action == DialogueAction::kHelp) {
    std::cerr << DialogueHelp();
  } else if (*action == DialogueAction::kShowSettings) {
    std::cerr << DialogueSettings(*request) << std::endl;
  }
  return !action.ok() || *action != DialogueAction::kEnd;
}

absl::Status Converse(Session& session, v1::GenerateRequest request) {
  ASSIGN_OR_RETURN(GenerationClient client, session.Generation());
  std::cerr << DialogueSettings(request) << "\n:help tells more\n";
  PromptEditor editor;
  while (true) {
    // From now on: Ctrl-C is the editor's key until a line is complete, and then the text's.
    CatchInterrupts();
    const std::optional<std::string> line = editor.Read();
    if (!line.has_value()) break;
    if (line->empty()) continue;
    if (line->front() == ':') {
      if (!ObeyTyped(*line, &request)) break;
      continue;
    }
    if (!IsValidUtf8(*line)) {
      std::cerr << "the prompt is not UTF-8; see locale\n";
      continue;
    }
    request.set_prompt(*line);
    if (Terminated()) break;
    // One before the line was complete was not for its text.
    ForgetInterrupt();
    CatchInterrupts();
    if (!ContinueTyped(client, request)) return absl::OkStatus();
  }
  ForgetInterrupt();
  return absl::OkStatus();
}

absl::Status Choose(Session& session, const GenerateOptions& options) {
  ASSIGN_OR_RETURN(const v1::GenerateRequest request, RequestOf(options));
  if (options.threads > 0 && !session.embedded()) {
    return absl::InvalidArgumentError(
        "--threads: with --server, its own setting holds (braidd --generate-threads)");
  }
  if (options.together && !session.embedded()) {
    return absl::InvalidArgumentError(
        "--together: with --server, its own setting holds (braidd --generate-together)");
  }
  session.options.serving.num_threads = options.threads;
  session.options.serving.together = options.together;
  if (options.has_prompt) return ContinueOne(session, options, request);
  if (!options.prompts.empty()) return ContinueMany(session, options, request);
  // What is typed shows on standard error.
  const bool at_terminal = IsTerminal(STDIN_FILENO) && IsTerminal(STDERR_FILENO);
  if (at_terminal && !session.json) return Converse(session, request);
  return absl::InvalidArgumentError(absl::StrCat(
      "got no prompt; give --prompt TEXT, --prompt - for standard input, or --prompts FILE (",
      session.json
          ? "--json asks for none)"
          : "where standard input and standard error are a terminal, braid asks for prompts)"));
}

// Of a pipe.
bool ReaderIsGone(int descriptor) {
  pollfd pipe = {.fd = descriptor, .events = POLLOUT, .revents = 0};
  return poll(&pipe, 1, 0) > 0 && (pipe.revents & POLLERR) != 0;
}

absl::Status Generate(Session& session, const GenerateOptions& options) {
  // A reader that has gone, as head does, is no error.
  signal(SIGPIPE, SIG_IGN);
  const absl::Status status = Choose(session, options);
  if (Interrupted()) return absl::CancelledError("interrupted");
  if (!status.ok() || std::cout.good()) return status;
  if (ReaderIsGone(STDOUT_FILENO)) return absl::OkStatus();
  return absl::DataLossError("cannot write to standard output");
}

void AddSampling(CLI::App* command, GenerateOptions& options) {
  command->add_option("--max-tokens", options.max_tokens, "Tokens to sample")
      ->capture_default_str()
      ->check(PositiveInt32());
  command->add_option("--temperature", options.temperature, "0 takes the most likely token")
      ->capture_default_str()
      ->check(AtLeastZero());
  command->add_option("--top-p", options.top_p, "Nucleus sampling mass")
      ->capture_default_str()
      ->check(PositiveUpTo(1));
  command->add_option("--seed", options.seed, "Seed of the sampler")
      ->capture_default_str()
      ->check(Seed());
  command->add_option("--routing", options.routing, "prompt (default) or segment");
  command->add_flag("--show-routing", options.show_routing,
                    "Show the experts' weights in each layer whenever they change (on stderr)");
}

}  // namespace

void AddGenerateCommand(Program& program) {
  auto options = std::make_shared<GenerateOptions>();
  CLI::App* command = program.app.add_subcommand(
      "generate", "Continue prompts; without one, at a terminal, asks for them");
  command->add_option("model", options->model, "Run id, run directory or checkpoint directory")
      ->required();
  CLI::Option* const prompt =
      command->add_option("--prompt", options->prompt, "Text to continue; - reads standard input");
  CLI::Option* const prompts =
      command
          ->add_option("--prompts", options->prompts,
                       "File with a prompt a line, or JSON Lines with \"prompt\"; - reads standard "
                       "input")
          ->excludes(prompt);
  command->add_option("--parallel", options->parallel, "Prompts of a file to work on at a time")
      ->capture_default_str()
      ->check(IntegerBetween(1, 64))
      ->needs(prompts);
  command
      ->add_flag("--together", options->together,
                 "Make them in one step: quicker, and rounding then depends on which are made at a "
                 "time; not with --server")
      ->needs(prompts);
  AddSampling(command, *options);
  command->add_option("--threads", options->threads, "Threads (all cores); not with --server")
      ->check(IntegerBetween(1, 1024));
  command->footer(
      "Examples:\n"
      "  braid generate run-000001\n"
      "  braid generate run-000001 --prompt 'The licence' --temperature 0.8 --top-p 0.9\n"
      "  head -c 500 README.md | braid generate run-000001 --prompt - --show-routing\n"
      "  braid generate run-000001 --prompts prompts.txt --parallel 4 --json > texts.jsonl");
  command->callback([&program, options, prompt] {
    options->has_prompt = prompt->count() > 0;
    program.action = [&program, options] { return Generate(program.session, *options); };
  });
}

}  // namespace braid
