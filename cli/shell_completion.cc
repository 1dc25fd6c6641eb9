#include "cli/shell_completion.h"

#include <iostream>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "cli/command.h"

namespace braid {
namespace {

struct CompletedOption {
  std::vector<std::string> short_names, long_names;  // without dashes
  std::string description;
  bool takes_value = false;
};

// A command with what may follow it.
struct CompletedCommand {
  std::string path;                                           // "braid corpus describe"
  std::vector<std::pair<std::string, std::string>> commands;  // name and description
  std::vector<CompletedOption> options;
};

std::vector<CompletedOption> OptionsOf(const CLI::App& app) {
  std::vector<CompletedOption> options;
  for (const CLI::Option* option : app.get_options([](const CLI::Option* one) {
         return one->nonpositional() && !one->get_group().empty();
       })) {
    options.push_back({option->get_snames(), option->get_lnames(), option->get_description(),
                       option->get_type_size() != 0});
  }
  return options;
}

// Appends `app` and its visible subcommands, depth first. `inherited` are the options of the root,
// which every command accepts.
void Collect(const CLI::App& app, const std::string& path,
             const std::vector<CompletedOption>& inherited,
             std::vector<CompletedCommand>* commands) {
  CompletedCommand command{.path = path, .commands = {}, .options = OptionsOf(app)};
  for (const CompletedOption& option : inherited) {
    if (option.long_names != std::vector<std::string>{"help"}) command.options.push_back(option);
  }
  const std::vector<const CLI::App*> children =
      app.get_subcommands([](const CLI::App* child) { return !child->get_group().empty(); });
  for (const CLI::App* child : children) {
    command.commands.emplace_back(child->get_name(), child->get_description());
  }
  const std::vector<CompletedOption> global = inherited.empty() ? command.options : inherited;
  commands->push_back(std::move(command));
  for (const CLI::App* child : children) {
    Collect(*child, absl::StrCat(path, " ", child->get_name()), global, commands);
  }
}

std::vector<std::string> NamesOf(const CompletedOption& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.short_names) names.push_back("-" + name);
  for (const std::string& name : option.long_names) names.push_back("--" + name);
  return names;
}

// In single quotes of a shell. `escaped` stands for a quote within them.
std::string Quoted(const std::string& text, const char* escaped) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", escaped}}), "'");
}

// The patterns of `case` that match a known command followed by one of its subcommands.
std::string CommandPatterns(const std::vector<CompletedCommand>& commands, const char* separator) {
  std::vector<std::string> patterns;
  for (size_t i = 1; i < commands.size(); ++i) {
    patterns.push_back(absl::StrCat("\"", commands[i].path, "\""));
  }
  return absl::StrJoin(patterns, separator);
}

std::string BashScript(const std::string& program, const std::vector<CompletedCommand>& commands) {
  std::string cases;
  for (const CompletedCommand& command : commands) {
    std::vector<std::string> names, options;
    for (const auto& [name, description] : command.commands) names.push_back(name);
    for (const CompletedOption& option : command.options) {
      for (const std::string& name : NamesOf(option)) options.push_back(name);
    }
    absl::StrAppend(&cases, "  \"", command.path, "\")\n    commands=\"", absl::StrJoin(names, " "),
                    "\"\n    options=\"", absl::StrJoin(options, " "), "\"\n    ;;\n");
  }
  return absl::StrCat("# Completion for bash. Load it with: source <(", program,
                      " completion bash)\n_", program, "() {\n",
                      "  local word=${COMP_WORDS[COMP_CWORD]} command=", program,
                      " commands= options= i\n"
                      "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
                      "    case \"$command ${COMP_WORDS[i]}\" in\n    ",
                      CommandPatterns(commands, " | "),
                      ")\n      command+=\" ${COMP_WORDS[i]}\" ;;\n    esac\n  done\n"
                      "  case $command in\n",
                      cases,
                      "  esac\n"
                      "  [[ $word == -* ]] && commands=$options\n"
                      "  COMPREPLY=($(compgen -W \"$commands\" -- \"$word\"))\n"
                      "}\n"
                      "complete -o default -F _",
                      program, " ", program, "\n");
}

std::string ZshScript(const std::string& program, const std::vector<CompletedCommand>& commands) {
  constexpr char kQuote[] = "'\\''";
  std::string cases;
  for (const CompletedCommand& command : commands) {
    absl::StrAppend(&cases, "  \"", command.path, "\")\n    commands=(");
    for (const auto& [name, description] : command.commands) {
      absl::StrAppend(&cases, "\n      ", Quoted(absl::StrCat(name, ":", description), kQuote));
    }
    absl::StrAppend(&cases, ")\n    options=(");
    for (const CompletedOption& option : command.options) {
      for (const std::string& name : NamesOf(option)) {
        absl::StrAppend(&cases, "\n      ",
                        Quoted(absl::StrCat(name, ":", option.description), kQuote));
      }
    }
    absl::StrAppend(&cases, ")\n    ;;\n");
  }
  return absl::StrCat("#compdef ", program, "\n# Completion for zsh. Save it as _", program,
                      " in a directory of $fpath, or load it with: source <(", program,
                      " completion zsh)\n_", program, "() {\n  local command=", program,
                      " i\n  local -a commands options\n"
                      "  for ((i = 2; i < CURRENT; ++i)); do\n"
                      "    case \"$command ${words[i]}\" in\n    ",
                      CommandPatterns(commands, " | "),
                      ")\n      command+=\" ${words[i]}\" ;;\n    esac\n  done\n"
                      "  case $command in\n",
                      cases,
                      "  esac\n"
                      "  if [[ ${words[CURRENT]} == -* ]]; then\n"
                      "    _describe -o option options\n"
                      "  elif (( ${#commands} )); then\n"
                      "    _describe command commands\n"
                      "  else\n    _files\n  fi\n}\n"
                      "if [[ ${funcstack[1]} == _",
                      program, " ]]; then _", program, " \"$@\"; else compdef _", program, " ",
                      program, "; fi\n");
}

std::string FishScript(const std::string& program, const std::vector<CompletedCommand>& commands) {
  constexpr char kQuote[] = "\\'";
  std::string script = absl::StrCat(
      "# Completion for fish. Load it with: ", program, " completion fish | source\n",
      "function __", program, "_command\n  set -l command ", program,
      "\n  for word in (commandline -opc)[2..-1]\n    switch \"$command $word\"\n      case ",
      CommandPatterns(commands, " "),
      "\n        set command \"$command $word\"\n    end\n  end\n  echo $command\nend\n");
  for (const CompletedCommand& command : commands) {
    const std::string line = absl::StrCat("complete -c ", program, " -n 'test (__", program,
                                          "_command) = \"", command.path, "\"'");
    for (const auto& [name, description] : command.commands) {
      absl::StrAppend(&script, line, " -f -a ", name, " -d ", Quoted(description, kQuote), "\n");
    }
    for (const CompletedOption& option : command.options) {
      absl::StrAppend(&script, line);
      for (const std::string& name : option.short_names) absl::StrAppend(&script, " -s ", name);
      for (const std::string& name : option.long_names) absl::StrAppend(&script, " -l ", name);
      absl::StrAppend(&script, option.takes_value ? " -r" : "", " -d ",
                      Quoted(option.description, kQuote), "\n");
    }
  }
  return script;
}

}  // namespace

absl::StatusOr<std::string> CompletionScript(const CLI::App& program, const std::string& shell) {
  std::vector<CompletedCommand> commands;
  Collect(program, program.get_name(), {}, &commands);
  // The names are shells to write for; none is started.
  if (shell == "bash") return BashScript(program.get_name(), commands);
  if (shell == "zsh") return ZshScript(program.get_name(), commands);
  if (shell == "fish") return FishScript(program.get_name(), commands);
  return absl::InvalidArgumentError(
      absl::StrCat("completion: got shell \"", shell, "\", expected bash, zsh or fish"));
}

void AddCompletionCommand(CommandLine& program) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command =
      program.app.add_subcommand("completion", "Print a completion script for a shell");
  command->add_option("shell", *shell, "Shell: bash, zsh or fish")->required();
  command->footer(
      "Examples:\n"
      "  source <(braid completion bash)\n"
      "  braid completion fish > ~/.config/fish/completions/braid.fish");
  command->callback([&program, shell] {
    program.action = [&program, shell]() -> absl::Status {
      ASSIGN_OR_RETURN(const std::string script, CompletionScript(program.app, *shell));
      std::cout << script << std::flush;
      return absl::OkStatus();
    };
  });
}

}  // namespace braid
