#include "cli/manual_page.h"

#include <iostream>
#include <memory>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/help_formatter.h"

namespace braid {
namespace {

// Text for roff: backslashes and hyphens are escaped, and no line can begin a request.
std::string Roff(const std::string& text) {
  const std::string escaped = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}});
  return escaped.starts_with('.') || escaped.starts_with('\'') ? "\\&" + escaped : escaped;
}

// A tagged paragraph.
std::string Paragraph(const std::string& tag, const std::string& text) {
  return absl::StrCat(".TP\n\\fB", Roff(tag), "\\fR\n", Roff(text), "\n");
}

std::string Section(const std::string& title) { return absl::StrCat(".SH \"", title, "\"\n"); }

std::string Synopsis(const CLI::App& app, const std::string& name) {
  std::string line = absl::StrCat("\\fB", Roff(name), "\\fR [\\fIOPTIONS\\fR]");
  for (const CLI::Option* option :
       app.get_options([](const CLI::Option* one) { return one->get_positional(); })) {
    const std::string word = Roff(absl::AsciiStrToUpper(option->get_name(true)));
    const bool several = option->get_expected_max() == CLI::detail::expected_max_vector_size;
    absl::StrAppend(&line, " ", option->get_required() ? "" : "[", "\\fI", word, "\\fR",
                    several ? "..." : "", option->get_required() ? "" : "]");
  }
  if (app.get_require_subcommand_min() > 0) absl::StrAppend(&line, " \\fICOMMAND\\fR");
  return line + "\n";
}

std::string Arguments(const CLI::App& app, bool positional) {
  std::string text;
  for (const CLI::Option* option : app.get_options([&](const CLI::Option* one) {
         return one->get_positional() == positional && !one->get_group().empty();
       })) {
    const std::string type =
        positional || option->get_type_size() == 0 ? "" : absl::StrCat(" ", ValueName(*option));
    absl::StrAppend(&text, Paragraph(absl::StrCat(option->get_name(positional, !positional), type),
                                     OptionHelp(*option)));
  }
  return text;
}

// The footer of a command as it is laid out.
std::string Notes(const CLI::App& app) {
  if (app.get_footer().empty()) return "";
  std::string text = absl::StrCat(Section("NOTES"), ".nf\n");
  const std::vector<std::string> lines = absl::StrSplit(app.get_footer(), '\n');
  for (const std::string& line : lines) absl::StrAppend(&text, Roff(line), "\n");
  return text + ".fi\n";
}

std::vector<const CLI::App*> VisibleCommands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); });
}

std::string Commands(const CLI::App& app) {
  std::string text;
  for (const CLI::App* command : VisibleCommands(app)) {
    absl::StrAppend(&text, Paragraph(command->get_name(), command->get_description()));
  }
  return text;
}

std::string Titled(const std::string& title, const std::string& text) {
  return text.empty() ? "" : Section(title) + text;
}

}  // namespace

absl::StatusOr<std::string> ManualPage(const CLI::App& program, std::span<const std::string> path) {
  const CLI::App* app = &program;
  std::vector<std::string> names = {program.get_name()};
  for (const std::string& name : path) {
    const CLI::App* const parent = app;
    app = nullptr;
    for (const CLI::App* child : parent->get_subcommands({})) {
      if (child->get_name() == name) app = child;
    }
    names.push_back(name);
    if (app == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("man: got command \"", absl::StrJoin(path, " "),
                       "\", expected a command; list them with '", program.get_name(), " --help'"));
    }
  }
  const std::string page = absl::StrJoin(names, "-");
  const std::string see_also =
      path.empty() ? "" : absl::StrCat("\\fB", Roff(program.get_name()), "\\fR(1)\n");
  return absl::StrCat(
      ".TH \"", absl::AsciiStrToUpper(page), "\" 1 \"\" \"", program.get_name(),
      "\" \"User Commands\"\n", Section("NAME"), Roff(page), " \\- ", Roff(app->get_description()),
      "\n", Section("SYNOPSIS"), Synopsis(*app, absl::StrJoin(names, " ")),
      Titled("ARGUMENTS", Arguments(*app, /*positional=*/true)),
      Titled("OPTIONS", Arguments(*app, /*positional=*/false)), Titled("COMMANDS", Commands(*app)),
      Notes(*app), Titled("SEE ALSO", see_also));
}

absl::Status WriteManualPages(const CLI::App& program, const std::filesystem::path& directory,
                              const std::vector<std::string>& path) {
  ASSIGN_OR_RETURN(const std::string page, ManualPage(program, path));
  std::vector<std::string> names = {program.get_name()};
  names.insert(names.end(), path.begin(), path.end());
  RETURN_IF_ERROR(WriteFileAtomically(directory / (absl::StrJoin(names, "-") + ".1"), page));
  const CLI::App* app = &program;
  for (const std::string& name : path) app = app->get_subcommand(name);
  for (const CLI::App* command : VisibleCommands(*app)) {
    std::vector<std::string> child = path;
    child.push_back(command->get_name());
    RETURN_IF_ERROR(WriteManualPages(program, directory, child));
  }
  return absl::OkStatus();
}

void AddManCommand(CommandLine& program) {
  auto path = std::make_shared<std::vector<std::string>>();
  auto directory = std::make_shared<std::filesystem::path>();
  CLI::App* command =
      program.app.add_subcommand("man", "Print the manual page of braid or of a command, in roff");
  command->add_option("command", *path, "Command, such as: corpus describe");
  command->add_option("--directory", *directory,
                      "Write the page of the command and those of all commands below it to this "
                      "directory, one file each");
  command->footer(
      "Examples:\n"
      "  braid man | man -l -\n"
      "  braid man corpus describe > braid-corpus-describe.1\n"
      "  braid man --directory /usr/local/share/man/man1");
  command->callback([&program, path, directory] {
    program.action = [&program, path, directory]() -> absl::Status {
      if (!directory->empty()) return WriteManualPages(program.app, *directory, *path);
      ASSIGN_OR_RETURN(const std::string page, ManualPage(program.app, *path));
      std::cout << page << std::flush;
      return absl::OkStatus();
    };
  });
}

}  // namespace braid
