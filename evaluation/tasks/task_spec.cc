#include "evaluation/tasks/task_spec.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest_word.h"
#include "base/status_macros.h"
#include "evaluation/tasks/field_rule.h"
#include "evaluation/tasks/task_files.h"
#include "evaluation/tasks/text_figures.h"
#include "evaluation/tasks/text_template.h"
#include "model/config/beam_search.h"
#include "proto/config_text.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

absl::Status Refuse(const v1::TaskSpec& spec, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat("task \"", spec.name(), "\": ", message));
}

bool IsName(absl::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_' || c == '-';
  });
}

// A specification may come from a client, so it may only refer to files in the data directory.
bool StaysInside(const std::string& name) {
  const fs::path path = name;
  return !path.is_absolute() &&
         std::ranges::none_of(path, [](const auto& part) { return part == ".."; });
}

absl::Status CheckFile(const v1::TaskSpec& spec, const v1::TaskFile& file) {
  if (file.path().empty()) return Refuse(spec, "a file has no path");
  if (file.format() == v1::FILE_FORMAT_UNSPECIFIED) {
    return Refuse(spec, absl::StrCat(file.path(), " has no format"));
  }
  for (const std::string& path : {file.path(), file.labels()}) {
    if (!StaysInside(path)) {
      return Refuse(spec, absl::StrCat("path ", path, ": expected a relative path without \"..\""));
    }
  }
  const bool table = file.format() == v1::CSV_FILE || file.format() == v1::TSV_FILE;
  if (table && !file.header() && file.columns().empty()) {
    return Refuse(spec, absl::StrCat(file.path(), " has neither a header nor columns"));
  }
  if (file.format() == v1::XML_FILE && file.records().empty()) {
    return Refuse(spec, absl::StrCat(file.path(), ": records: expected the name of an element"));
  }
  for (const v1::TaskField& field : file.fields()) {
    RETURN_IF_ERROR(FieldRule::Create(field, absl::StrCat("task \"", spec.name(), "\"")).status());
  }
  return absl::OkStatus();
}

absl::Status CheckFiles(const v1::TaskSpec& spec) {
  if (spec.examples().empty()) return Refuse(spec, "examples { path: ... } is missing");
  if (!StaysInside(spec.folder())) return Refuse(spec, "folder: expected a name without \"..\"");
  for (const TaskFiles* files : {&spec.examples(), &spec.demonstrations()}) {
    for (const v1::TaskFile& file : *files) RETURN_IF_ERROR(CheckFile(spec, file));
  }
  for (const v1::TaskField& field : spec.fields()) {
    RETURN_IF_ERROR(FieldRule::Create(field, absl::StrCat("task \"", spec.name(), "\"")).status());
  }
  return absl::OkStatus();
}

absl::Status CheckTemplates(const v1::TaskSpec& spec) {
  std::vector<std::string> texts = {spec.prompt(), spec.choice().gold(),
                                    spec.choice().continuation(),
                                    spec.choice().unconditional_context()};
  texts.insert(texts.end(), spec.choice().choices().begin(), spec.choice().choices().end());
  for (const std::string& text : texts) {
    RETURN_IF_ERROR(TextTemplate::Parse(text, absl::StrCat("task \"", spec.name(), "\"")).status());
  }
  return absl::OkStatus();
}

absl::Status CheckChoice(const v1::TaskSpec& spec) {
  const v1::ChoiceAnswer& choice = spec.choice();
  if (choice.choices().empty() == choice.choices_from().empty()) {
    return Refuse(spec, "choice: give either choices or choices_from");
  }
  if (choice.gold().empty()) return Refuse(spec, "choice.gold is missing");
  if (!choice.labels().empty() && !choice.labels_from().empty()) {
    return Refuse(spec, "choice: give either labels or labels_from");
  }
  if (!choice.labels().empty() && !choice.choices().empty() &&
      choice.labels_size() != choice.choices_size()) {
    return Refuse(spec, absl::StrCat("choice: ", choice.labels_size(), " labels for ",
                                     choice.choices_size(), " choices"));
  }
  return absl::OkStatus();
}

// Returns whether a figure is one of the task's kind of answer.
bool FitsAnswer(const v1::TaskSpec& spec, v1::TaskFigure figure) {
  if (spec.has_number() || figure == v1::PEARSON) return spec.has_number() && figure == v1::PEARSON;
  if (figure == v1::ANSWER_LOSS) return true;
  const bool of_text = figure == v1::EXACT_MATCH || figure == v1::ANSWER_F1 ||
                       figure == v1::SOLVED || IsTextFigure(figure);
  return of_text != spec.has_choice();
}

std::string KindOfAnswer(const v1::TaskSpec& spec) {
  return spec.has_choice() ? "choices" : spec.has_number() ? "numbers" : "free answers";
}

absl::Status CheckNumber(const v1::TaskSpec& spec) {
  if (spec.number().gold().empty()) return Refuse(spec, "number.gold is missing");
  return absl::OkStatus();
}

absl::Status CheckFree(const v1::TaskSpec& spec) {
  const v1::FreeAnswer& free = spec.free();
  if (free.references_from().empty()) {
    return Refuse(spec, "give choice { ... }, free { references_from: ... } or number { ... }");
  }
  if (std::ranges::any_of(free.stop(), &std::string::empty)) {
    return Refuse(spec, "free.stop: got an empty text, which ends every answer before it begins");
  }
  if (free.max_tokens() < 0) {
    return Refuse(spec, absl::StrCat("free.max_tokens: got ", free.max_tokens(),
                                     ", expected 0 (the default) or more"));
  }
  if (free.num_beams() < 0 || free.num_beams() > kMaxBeams) {
    return Refuse(spec, absl::StrCat("free.num_beams: got ", free.num_beams(), ", expected 1 to ",
                                     kMaxBeams));
  }
  if (!(free.length_penalty() >= 0 && free.length_penalty() <= 10)) {
    return Refuse(spec, absl::StrCat("free.length_penalty: got ", free.length_penalty(),
                                     ", expected 0 to 10"));
  }
  if (free.no_repeat_ngram() >= 0) return absl::OkStatus();
  return Refuse(spec, absl::StrCat("free.no_repeat_ngram: got ", free.no_repeat_ngram(),
                                   ", expected at least 0"));
}

bool HasPositive(const v1::ChoiceAnswer& choice) {
  return std::ranges::find(choice.labels(), choice.positive()) != choice.labels().end();
}

absl::Status CheckFigures(const v1::TaskSpec& spec) {
  if (spec.figures().empty()) return Refuse(spec, "figures is empty");
  for (const int figure : spec.figures()) {
    const auto value = static_cast<v1::TaskFigure>(figure);
    if (!v1::TaskFigure_IsValid(figure) || figure == v1::TASK_FIGURE_UNSPECIFIED ||
        !FitsAnswer(spec, value)) {
      return Refuse(
          spec, absl::StrCat("figure ", FigureName(value), " is not one of ", KindOfAnswer(spec)));
    }
    if (figure == v1::F1 && !HasPositive(spec.choice())) {
      return Refuse(spec, "F1 needs choice.positive, one of choice.labels");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::TaskSpec> ParseTaskSpec(absl::string_view text, absl::string_view source) {
  v1::TaskSpec spec;
  RETURN_IF_ERROR(ParseConfig({text.data(), text.size()}, {source.data(), source.size()}, &spec));
  const absl::Status checked = CheckTaskSpec(spec);
  if (checked.ok()) return spec;
  return absl::Status(checked.code(), absl::StrCat(source, ": ", checked.message()));
}

absl::Status CheckTaskSpec(const v1::TaskSpec& spec) {
  if (!IsName(spec.name())) return Refuse(spec, "name: expected a-z, 0-9, _ and -");
  if (spec.prompt().empty()) return Refuse(spec, "prompt is missing");
  if (spec.num_shots() < 0) return Refuse(spec, "num_shots is negative");
  RETURN_IF_ERROR(CheckFiles(spec));
  RETURN_IF_ERROR(CheckTemplates(spec));
  RETURN_IF_ERROR(spec.has_choice()   ? CheckChoice(spec)
                  : spec.has_number() ? CheckNumber(spec)
                                      : CheckFree(spec));
  return CheckFigures(spec);
}

absl::StatusOr<std::vector<v1::TaskSpec>> BuiltinTasks() {
  std::vector<v1::TaskSpec> tasks;
  for (const EmbeddedTask& embedded : EmbeddedTasks()) {
    ASSIGN_OR_RETURN(v1::TaskSpec spec, ParseTaskSpec(embedded.text, embedded.file));
    tasks.push_back(std::move(spec));
  }
  std::ranges::sort(tasks, {}, [](const v1::TaskSpec& spec) { return spec.name(); });
  return tasks;
}

absl::StatusOr<v1::TaskSpec> BuiltinTask(const std::string& name) {
  ASSIGN_OR_RETURN(const std::vector<v1::TaskSpec> tasks, BuiltinTasks());
  std::vector<std::string> names;
  for (const v1::TaskSpec& task : tasks) {
    if (task.name() == name) return task;
    names.push_back(task.name());
  }
  const std::string nearest = NearestWord(name, names);
  return absl::NotFoundError(
      absl::StrCat("no built-in task \"", name, "\"",
                   nearest.empty() ? "" : absl::StrCat("; nearest: ", nearest),
                   "; 'braid eval tasks --list' shows all, and its --task-file adds your own"));
}

std::optional<std::vector<std::string>> CommonChoices(const v1::TaskSpec& spec) {
  const v1::ChoiceAnswer& choice = spec.choice();
  const auto varies = [](const std::string& text) { return text.find('{') != text.npos; };
  const bool plain = choice.continuation().empty() || choice.continuation() == "{choice}";
  if (choice.choices().empty() || !plain || std::ranges::any_of(choice.choices(), varies) ||
      spec.prompt().find("{choice") != std::string::npos) {
    return std::nullopt;
  }
  return std::vector<std::string>(choice.choices().begin(), choice.choices().end());
}

std::string FigureName(v1::TaskFigure figure) {
  return absl::AsciiStrToLower(v1::TaskFigure_Name(figure));
}

std::string TaskFolder(const v1::TaskSpec& spec) {
  return spec.folder().empty() ? spec.name() : spec.folder();
}

std::string ExpectedFiles(const v1::TaskSpec& spec) {
  std::vector<std::string> files;
  for (const v1::TaskFile& file : spec.examples()) {
    std::string name = (fs::path(TaskFolder(spec)) / file.path()).lexically_normal().string();
    if (!file.labels().empty()) absl::StrAppend(&name, " + ", file.labels());
    if (std::ranges::find(files, name) == files.end()) files.push_back(name);
  }
  return absl::StrJoin(files, ", or ");
}

}  // namespace braid
