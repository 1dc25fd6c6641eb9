#include "client/terminal/prompt_dialogue.h"

#include <cmath>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace braid {
namespace {

absl::Status Expected(const std::string& what, const std::string& got,
                      const std::string& expected) {
  return absl::InvalidArgumentError(absl::StrCat(what, ": got \"", got, "\", expected ", expected));
}

absl::Status SetTemperature(const std::string& text, v1::GenerateRequest* request) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !std::isfinite(value) || value < 0) {
    return Expected("temperature", text, "a number of at least 0");
  }
  request->set_temperature(value);
  return absl::OkStatus();
}

absl::Status SetTopP(const std::string& text, v1::GenerateRequest* request) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !(value > 0 && value <= 1)) {
    return Expected("top-p", text, "a number above 0 and up to 1");
  }
  request->set_top_p(value);
  return absl::OkStatus();
}

absl::Status SetMaxTokens(const std::string& text, v1::GenerateRequest* request) {
  int32_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < 1) {
    return Expected("max-tokens", text, "a whole number of at least 1");
  }
  request->set_max_tokens(value);
  return absl::OkStatus();
}

absl::Status SetSeed(const std::string& text, v1::GenerateRequest* request) {
  uint64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) return Expected("seed", text, "a whole number");
  request->set_seed(value);
  return absl::OkStatus();
}

absl::Status SetRouting(const std::string& text, v1::GenerateRequest* request) {
  if (text != "prompt" && text != "segment") return Expected("routing", text, "prompt or segment");
  request->set_routing(text == "segment" ? v1::SEGMENT_ROUTING : v1::PROMPT_ROUTING);
  return absl::OkStatus();
}

absl::Status SetShowRouting(const std::string& text, v1::GenerateRequest* request) {
  if (text != "on" && text != "off") return Expected("show-routing", text, "on or off");
  request->set_want_routing(text == "on");
  return absl::OkStatus();
}

struct Setting {
  const char* name;
  absl::Status (*set)(const std::string& text, v1::GenerateRequest* request);
};

constexpr Setting kSettings[] = {{"temperature", SetTemperature}, {"top-p", SetTopP},
                                 {"max-tokens", SetMaxTokens},    {"seed", SetSeed},
                                 {"routing", SetRouting},         {"show-routing", SetShowRouting}};

absl::Status Set(const std::string& name, const std::string& value, v1::GenerateRequest* request) {
  for (const Setting& setting : kSettings) {
    if (name == setting.name) return setting.set(value, request);
  }
  return Expected("setting", name, "temperature, top-p, max-tokens, seed, routing or show-routing");
}

}  // namespace

absl::StatusOr<DialogueAction> ApplyDialogueCommand(const std::string& line,
                                                    v1::GenerateRequest* request) {
  const std::vector<std::string> words = absl::StrSplit(line.substr(1), ' ', absl::SkipEmpty());
  const std::string command = words.empty() ? "" : words[0];
  if (words.size() == 1) {
    if (command == "help") return DialogueAction::kHelp;
    if (command == "settings") return DialogueAction::kShowSettings;
    if (command == "quit") return DialogueAction::kEnd;
  }
  absl::Status status;
  if (command == "set" && words.size() == 3) {
    status = Set(words[1], words[2], request);
  } else if (command == "show-routing" && words.size() == 1) {
    request->set_want_routing(!request->want_routing());
  } else if (words.size() == 2 && command != "set") {
    // A setting may be a command itself, as in ":seed 3".
    status = Set(command, words[1], request);
  } else {
    status = Expected("command", line, "a command such as \":seed 3\"; type :help for all");
  }
  if (!status.ok()) return status;
  return DialogueAction::kShowSettings;
}

std::string DialogueHelp() {
  return "Type a prompt to generate text from it, or a command:\n"
         "  :set temperature 0.8   set the sampling temperature; 0 picks the most likely token\n"
         "  :set top-p 0.9         set the probability mass of nucleus sampling\n"
         "  :set max-tokens 200    set the maximum number of tokens\n"
         "  :seed 3                set the seed of the sampler\n"
         "  :routing segment       set the routing at inference: prompt or segment\n"
         "  :show-routing          toggle the display of router weights\n"
         "  :settings              show the settings\n"
         "  :help                  show this help\n"
         "  :quit                  exit\n"
         "Ctrl-C stops the current text; Ctrl-D exits. Put a space before a prompt that starts "
         "with a colon.\n";
}

std::string DialogueSettings(const v1::GenerateRequest& request) {
  return absl::StrFormat(
      "[temperature %g, top-p %g, max-tokens %d, seed %d, routing %s, show-routing %s]",
      request.temperature(), request.top_p(), request.max_tokens(), request.seed(),
      request.routing() == v1::SEGMENT_ROUTING ? "segment" : "prompt",
      request.want_routing() ? "on" : "off");
}

}  // namespace braid
