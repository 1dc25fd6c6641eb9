// The command "generate".
#include <signal.h>
#include <unistd.h>

#include <iostream>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/evaluation_flags.h"
#include "cli/generation_json.h"
#include "cli/prompt_batch.h"
#include "cli/prompt_list.h"
#include "client/terminal/generation_printer.h"
#include "client/terminal/prompt_dialogue.h"
#include "client/terminal/prompt_editor.h"
#include "client/terminal/source_warning.h"
#include "client/terminal/terminal_text.h"
#include "formats/chat_template.h"
#include "model/config/beam_search.h"
#include "proto/stated_defaults.h"
#include "rpc/interrupt.h"

namespace braid {
namespace {

struct GenerateOptions {
  std::string model, prompt, prompts, routing, system, chat_template;
  std::string sampling_option;  // one that was given and concerns sampling only; empty: none
  bool has_length_penalty = false;
  bool has_prompt = false, show_routing = false, together = false, strict = false, chat = false;
  int32_t max_tokens = 0, threads = 0, parallel = 1, active_experts = 0;
  int32_t num_beams = 0, no_repeat_ngram = 0;
  double temperature = 0, top_p = 0, length_penalty = 0;
  uint64_t seed = 0;
  std::optional<uint64_t> routing_seed;
};

absl::StatusOr<v1::GenerateRequest> RequestOf(const GenerateOptions& options) {
  v1::GenerateRequest request;
  request.set_model(ModelReference(options.model));
  request.set_max_tokens(options.max_tokens);
  request.set_temperature(options.temperature);
  request.set_top_p(options.top_p);
  request.set_seed(options.seed);
  request.set_want_routing(options.show_routing);
  request.set_strict(options.strict);
  if (options.active_experts > 0) request.set_active_experts(options.active_experts);
  if (options.routing_seed.has_value()) request.set_routing_seed(*options.routing_seed);
  ASSIGN_OR_RETURN(const v1::InferenceRouting routing, ParseRouting(options.routing));
  request.set_routing(routing);
  request.set_chat(options.chat);
  request.set_system(options.system);
  request.set_chat_template(options.chat_template);
  request.set_num_beams(options.num_beams);
  request.set_length_penalty(options.length_penalty);
  request.set_no_repeat_ngram(options.no_repeat_ngram);
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
    return absl::InvalidArgumentError(
        "--prompt: standard input is not UTF-8; convert it with iconv");
  }
  ASSIGN_OR_RETURN(GenerationClient client, session.Generation());
  CatchInterrupts();
  GenerationPrinter printer = NewPrinter(request);
  bool first = true;
  const absl::Status status = client.Generate(request, [&](const v1::GenerateEvent& event) {
    if (session.json) {
      SourceWarning(std::cerr).Show(event.source());
      std::cout << EventJson(event).dump() << std::endl;
    } else {
      // Printed only once the first event arrives, so that an earlier failure shows its message
      // alone.
      if (std::exchange(first, false) && !request.chat()) printer.Print(request.prompt());
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

// Continues one prompt of the dialogue. Errors are printed, and the dialogue continues. Returns
// false when SIGTERM was received and the dialogue must end.
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
  ForgetInterrupt();  // it ended the text, not the dialogue
  return true;
}

// Applies a command of the dialogue. Returns false when it ends the dialogue.
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
  std::cerr << DialogueSettings(request) << "\ntype :help for help\n";
  PromptEditor editor;
  while (true) {
    // Ctrl-C is a key of the editor until a line is complete; then it stops the text.
    CatchInterrupts();
    const std::optional<std::string> line = editor.Read();
    if (!line.has_value()) break;
    if (line->empty()) continue;
    if (line->front() == ':') {
      if (!ObeyTyped(*line, &request)) break;
      continue;
    }
    if (!IsValidUtf8(*line)) {
      std::cerr << "the prompt is not UTF-8; check the locale of the terminal\n";
      continue;
    }
    request.set_prompt(*line);
    if (Terminated()) break;
    // Discards an interrupt from before the line was complete.
    ForgetInterrupt();
    CatchInterrupts();
    if (!ContinueTyped(client, request)) return absl::OkStatus();
  }
  ForgetInterrupt();
  return absl::OkStatus();
}

// Refuses settings of a sampler or a search that is not used. A dialogue can change the
// temperature, but not the number of beams.
absl::Status CheckSampling(const GenerateOptions& options) {
  if (options.has_length_penalty && options.num_beams == 1) {
    return absl::InvalidArgumentError(
        "--length-penalty: has no effect with --beams 1, expected --beams above 1");
  }
  if (!options.sampling_option.empty() && options.num_beams > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.sampling_option, ": cannot be combined with --beams ", options.num_beams,
        ", since a beam search does not sample; leave one of them out"));
  }
  const bool is_dialogue = !options.has_prompt && options.prompts.empty();
  if (options.sampling_option.empty() || options.temperature > 0 || is_dialogue) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(options.sampling_option,
                   ": has no effect at temperature 0, which picks the most likely token; set "
                   "--temperature above 0"));
}

absl::Status Choose(Session& session, const GenerateOptions& options) {
  ASSIGN_OR_RETURN(const v1::GenerateRequest request, RequestOf(options));
  if (options.threads > 0 && !session.embedded()) {
    return absl::InvalidArgumentError(
        "--threads: cannot be combined with --server, which has its own setting "
        "(braidd --generate-threads)");
  }
  if (options.together && !session.embedded()) {
    return absl::InvalidArgumentError(
        "--together: cannot be combined with --server, which has its own setting "
        "(braidd --generate-together)");
  }
  RETURN_IF_ERROR(CheckSampling(options));
  session.options.serving.num_threads = options.threads;
  session.options.serving.together = options.together;
  if (options.has_prompt) return ContinueOne(session, options, request);
  if (!options.prompts.empty()) return ContinueMany(session, options, request);
  // The editor echoes what is typed on standard error.
  const bool at_terminal = IsTerminal(STDIN_FILENO) && IsTerminal(STDERR_FILENO);
  if (at_terminal && !session.json) return Converse(session, request);
  return absl::InvalidArgumentError(absl::StrCat(
      "got no prompt, expected --prompt TEXT, --prompt - for standard input, or --prompts FILE (",
      session.json ? "--json does not start a dialogue)"
                   : "a dialogue needs a terminal for standard input and standard error)"));
}

absl::Status Generate(Session& session, const GenerateOptions& options) {
  // A reader that closes the pipe early, such as head, is not an error; see CheckedOutput().
  signal(SIGPIPE, SIG_IGN);
  const absl::Status status = Choose(session, options);
  return Interrupted() ? absl::CancelledError("interrupted") : status;
}

void AddChat(CLI::App* command, GenerateOptions& options) {
  CLI::Option* const chat = command->add_flag(
      "--chat", options.chat, "Put the prompt into the model's chat template and print the answer");
  command->add_option("--system", options.system, "System message before the prompt")->needs(chat);
  command
      ->add_option("--template", options.chat_template,
                   "Chat template (default: the one that the model was fine-tuned with)")
      ->check(OneOf(ChatTemplateNames()))
      ->needs(chat);
}

void AddSearch(CLI::App* command, GenerateOptions& options) {
  v1::GenerateRequest defaults;
  FillStatedDefaults(&defaults);
  options.num_beams = defaults.num_beams();
  options.length_penalty = defaults.length_penalty();
  options.no_repeat_ngram = defaults.no_repeat_ngram();
  command
      ->add_option("--beams", options.num_beams,
                   "Beams of a beam search, which prints its text at the end; needs temperature 0")
      ->capture_default_str()
      ->check(IntegerBetween(1, kMaxBeams));
  command
      ->add_option("--length-penalty", options.length_penalty,
                   "Length penalty a: a beam's score is log p / length^a")
      ->capture_default_str()
      ->check(NumberBetween(0, 10))
      ->needs(command->get_option("--beams"));
  command
      ->add_option("--no-repeat-ngram", options.no_repeat_ngram,
                   "Never repeat an n-gram of this many tokens; 0 disables")
      ->capture_default_str()
      ->check(IntegerBetween(0, INT32_MAX));
}

void AddSampling(CLI::App* command, GenerateOptions& options) {
  AddStrict(command, &options.strict);
  v1::GenerateRequest defaults;
  FillStatedDefaults(&defaults);
  options.max_tokens = defaults.max_tokens();
  options.top_p = defaults.top_p();
  command->add_option("--max-tokens", options.max_tokens, "Maximum number of tokens to generate")
      ->capture_default_str()
      ->check(PositiveInt32());
  command
      ->add_option("--temperature", options.temperature,
                   "Sampling temperature; 0 always picks the most likely token")
      ->capture_default_str()
      ->check(AtLeastZero());
  command->add_option("--top-p", options.top_p, "Probability mass of nucleus sampling")
      ->capture_default_str()
      ->check(PositiveUpTo(1));
  command->add_option("--seed", options.seed, "Seed of the sampler")
      ->capture_default_str()
      ->check(Seed());
  command->add_option("--routing", options.routing, "Routing at inference (default: prompt)")
      ->check(OneOf({"prompt", "segment"}));
  AddActiveExperts(command, &options.active_experts);
  AddRoutingSeed(command, &options.routing_seed);
  command->add_flag(
      "--show-routing", options.show_routing,
      "Print the router weights of each layer to standard error whenever they change");
}

}  // namespace

void AddGenerateCommand(CommandLine& program) {
  auto options = std::make_shared<GenerateOptions>();
  CLI::App* command = program.app.add_subcommand(
      "generate", "Generate text from a prompt, or start an interactive session");
  AddModel(command, &options->model);
  CLI::Option* const prompt = command->add_option("--prompt", options->prompt,
                                                  "Prompt to continue; - reads standard input");
  CLI::Option* const prompts =
      command
          ->add_option(
              "--prompts", options->prompts,
              "File with one prompt per line, or JSON Lines with a \"prompt\" field; - reads "
              "standard input")
          ->check(NotEmpty("a file"))
          ->excludes(prompt);
  command
      ->add_option("--parallel", options->parallel,
                   "Number of prompts of a file to process concurrently")
      ->capture_default_str()
      ->check(IntegerBetween(1, 64))
      ->needs(prompts);
  command
      ->add_flag("--together", options->together,
                 "Batch concurrent prompts into one step: faster, but rounding then depends on the "
                 "batch; not with --server")
      ->needs(command->get_option("--parallel"));
  AddChat(command, *options);
  AddSampling(command, *options);
  AddSearch(command, *options);
  command
      ->add_option("--threads", options->threads,
                   "Number of threads (default: all cores); not with --server")
      ->check(IntegerBetween(1, 1024));
  command->footer(
      "Examples:\n"
      "  braid generate run-000001\n"
      "  braid generate run-000001 --prompt 'The license' --temperature 0.8 --top-p 0.9\n"
      "  head -c 500 README.md | braid generate run-000001 --prompt - --show-routing\n"
      "  braid generate run-000002 --chat --system 'Be brief.' --prompt 'Name a color.' --beams 4\n"
      "  braid generate run-000001 --prompts prompts.txt --parallel 4 --json > texts.jsonl");
  command->callback([&program, options, command, prompt] {
    options->has_prompt = prompt->count() > 0;
    for (const char* const name : {"--top-p", "--seed"}) {
      if (command->get_option(name)->count() > 0) options->sampling_option = name;
    }
    options->has_length_penalty = command->get_option("--length-penalty")->count() > 0;
    program.action = [&program, options] { return Generate(program.session, *options); };
  });
}

}  // namespace braid
