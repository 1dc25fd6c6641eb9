#include "evaluation/tasks/task_examples.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/atomic_file.h"
#include "base/splitmix.h"
#include "base/status_macros.h"
#include "evaluation/tasks/task_files.h"
#include "evaluation/tasks/task_spec.h"
#include "evaluation/tasks/text_figures.h"
#include "evaluation/tasks/text_template.h"

namespace braid {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

// The templates of a specification, parsed once for all records.
class ExampleMaker {
 public:
  static absl::StatusOr<ExampleMaker> Create(const v1::TaskSpec& spec) {
    const std::string what = absl::StrCat("task \"", spec.name(), "\"");
    const v1::ChoiceAnswer& choice = spec.choice();
    const std::string continuation =
        choice.continuation().empty() ? "{choice}" : choice.continuation();
    ExampleMaker maker(spec);
    ASSIGN_OR_RETURN(maker.prompt_, TextTemplate::Parse(spec.prompt(), what));
    ASSIGN_OR_RETURN(maker.gold_, TextTemplate::Parse(choice.gold(), what));
    ASSIGN_OR_RETURN(maker.continuation_, TextTemplate::Parse(continuation, what));
    ASSIGN_OR_RETURN(maker.unconditional_,
                     TextTemplate::Parse(choice.unconditional_context(), what));
    for (const std::string& text : choice.choices()) {
      ASSIGN_OR_RETURN(TextTemplate parsed, TextTemplate::Parse(text, what));
      maker.choices_.push_back(std::move(parsed));
    }
    return maker;
  }

  // For a demonstration, only the correct choice is validated.
  absl::StatusOr<TaskExample> Make(const TaskRecord& record, bool demonstration) const {
    TaskExample example;
    example.where = record.where;
    RETURN_IF_ERROR(spec_.has_choice()   ? AddChoices(record, demonstration, &example)
                    : spec_.has_number() ? AddNumber(record, &example)
                                         : AddReferences(record, demonstration, &example));
    return example;
  }

 private:
  explicit ExampleMaker(const v1::TaskSpec& spec) : spec_(spec) {}

  absl::StatusOr<Texts> Choices(const TaskRecord& record) const {
    if (choices_.empty()) return FieldTexts(record, spec_.choice().choices_from());
    Texts choices;
    for (const TextTemplate& choice : choices_) {
      ASSIGN_OR_RETURN(std::string text, choice.Render(record));
      choices.push_back(std::move(text));
    }
    return choices;
  }

  absl::StatusOr<Texts> Labels(const TaskRecord& record, size_t num_choices) const {
    const v1::ChoiceAnswer& choice = spec_.choice();
    if (!choice.labels_from().empty()) return FieldTexts(record, choice.labels_from());
    if (!choice.labels().empty()) {
      // A record may have fewer choices than there are labels, such as A to E.
      const size_t count = std::min<size_t>(num_choices, choice.labels_size());
      return Texts(choice.labels().begin(), choice.labels().begin() + static_cast<int>(count));
    }
    Texts labels;
    for (size_t i = 0; i < num_choices; ++i) labels.push_back(absl::StrCat(i));
    return labels;
  }

  absl::StatusOr<int> Gold(const TaskRecord& record, size_t num_choices) const {
    ASSIGN_OR_RETURN(const Texts labels, Labels(record, num_choices));
    ASSIGN_OR_RETURN(const std::string gold, gold_.Render(record));
    if (labels.size() != num_choices) {
      return RecordError(record, absl::StrCat("got ", num_choices, " choices for ", labels.size(),
                                              " labels (", absl::StrJoin(labels, ", "), ")"));
    }
    const auto found = std::ranges::find(labels, gold);
    if (found != labels.end()) return static_cast<int>(found - labels.begin());
    return RecordError(record, absl::StrCat("label: got \"", gold, "\", expected one of ",
                                            absl::StrJoin(labels, ", ")));
  }

  absl::Status AddChoices(const TaskRecord& record, bool demonstration,
                          TaskExample* example) const {
    ASSIGN_OR_RETURN(const Texts choices, Choices(record));
    ASSIGN_OR_RETURN(example->gold, Gold(record, choices.size()));
    const bool partial = prompt_.Uses("choice");
    for (size_t i = 0; i < choices.size(); ++i) {
      ASSIGN_OR_RETURN(std::string continuation, continuation_.Render(record, choices[i]));
      if (!demonstration || static_cast<int>(i) == example->gold) {
        if (choices[i].empty()) return RecordError(record, "a choice is empty");
        if (continuation.empty()) return RecordError(record, "the continuation to score is empty");
      }
      example->continuations.push_back(std::move(continuation));
      if (!partial && !example->prompts.empty()) continue;
      ASSIGN_OR_RETURN(std::string prompt, prompt_.Render(record, choices[i]));
      example->prompts.push_back(std::move(prompt));
    }
    ASSIGN_OR_RETURN(example->unconditional_context, unconditional_.Render(record));
    return absl::OkStatus();
  }

  // Refuses an empty text where it is compared by its words, or its loss would be that of no token.
  absl::Status CheckMeasurable(const TaskRecord& record, const Texts& references) const {
    for (const std::string& text : references) {
      if (!absl::StripAsciiWhitespace(text).empty()) continue;
      for (const int number : spec_.figures()) {
        const auto figure = static_cast<v1::TaskFigure>(number);
        const bool has_loss = figure == v1::ANSWER_LOSS && &text == &references.front();
        if (!IsTextFigure(figure) && !has_loss) continue;
        return RecordError(record,
                           absl::StrCat("field \"", spec_.free().references_from(),
                                        "\": got an empty text, which has no ", FigureName(figure),
                                        ", expected words; leave it out"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status AddReferences(const TaskRecord& record, bool demonstration,
                             TaskExample* example) const {
    ASSIGN_OR_RETURN(example->references, FieldTexts(record, spec_.free().references_from()));
    if (example->references.empty())
      return RecordError(record, "the list of accepted answers is empty");
    if (!demonstration) RETURN_IF_ERROR(CheckMeasurable(record, example->references));
    ASSIGN_OR_RETURN(std::string prompt, prompt_.Render(record));
    example->prompts.push_back(std::move(prompt));
    if (spec_.free().group_by().empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const Texts group, FieldTexts(record, spec_.free().group_by()));
    example->group = absl::StrJoin(group, "\n");
    return absl::OkStatus();
  }

  absl::Status AddNumber(const TaskRecord& record, TaskExample* example) const {
    ASSIGN_OR_RETURN(std::string text, FieldText(record, spec_.number().gold()));
    if (!absl::SimpleAtod(text, &example->number) || !std::isfinite(example->number)) {
      return RecordError(record, absl::StrCat("field \"", spec_.number().gold(), "\": got \"", text,
                                              "\", expected a finite number"));
    }
    example->references.push_back(std::move(text));
    ASSIGN_OR_RETURN(std::string prompt, prompt_.Render(record));
    example->prompts.push_back(std::move(prompt));
    return absl::OkStatus();
  }

  const v1::TaskSpec& spec_;
  TextTemplate prompt_;
  TextTemplate gold_;
  TextTemplate continuation_;
  TextTemplate unconditional_;
  std::vector<TextTemplate> choices_;
};

absl::StatusOr<uint64_t> DigestOf(const v1::TaskFile& file, const fs::path& folder,
                                  uint64_t digest) {
  std::vector<fs::path> paths = MatchingFiles(folder, file.path());
  if (!file.labels().empty()) paths.push_back(folder / file.labels());
  for (const fs::path& path : paths) {
    ASSIGN_OR_RETURN(const FileSummary summary, SummarizeFile(path));
    digest = Mix64(digest, absl::StrCat(summary.name, " ", summary.bytes, " ", summary.crc32c));
  }
  return digest;
}

absl::StatusOr<std::vector<TaskExample>> ReadExamples(const v1::TaskSpec& spec,
                                                      const v1::TaskFile& file,
                                                      const fs::path& folder, bool demonstrations) {
  ASSIGN_OR_RETURN(const ExampleMaker maker, ExampleMaker::Create(spec));
  ASSIGN_OR_RETURN(const std::vector<TaskRecord> records,
                   ReadTaskFile(file, spec.fields(), folder));
  std::vector<TaskExample> examples;
  for (const TaskRecord& record : records) {
    ASSIGN_OR_RETURN(TaskExample example, maker.Make(record, demonstrations));
    examples.push_back(std::move(example));
  }
  if (!examples.empty()) return examples;
  return absl::InvalidArgumentError(
      absl::StrCat((folder / file.path()).string(), ": contains no examples"));
}

std::vector<TaskExample> WithGroupsTogether(std::vector<TaskExample> examples) {
  std::vector<TaskExample> together;
  std::map<std::string, size_t> places;  // in `together`, by group
  for (TaskExample& example : examples) {
    const auto [place, added] = places.emplace(example.group, together.size());
    if (added) {
      together.push_back(std::move(example));
      continue;
    }
    std::vector<std::string>& references = together[place->second].references;
    references.insert(references.end(), example.references.begin(), example.references.end());
  }
  return together;
}

// Without a separate file, the examples themselves serve as demonstrations.
absl::Status LoadDemonstrations(const v1::TaskFile& examples, const fs::path& folder,
                                LoadedTask* task) {
  ASSIGN_OR_RETURN(const v1::TaskFile* file, FindTaskFile(task->spec.demonstrations(), folder));
  if (file == nullptr) return absl::OkStatus();
  if (MatchingFiles(folder, file->path()) == MatchingFiles(folder, examples.path())) {
    return absl::OkStatus();
  }
  task->demonstrations_are_examples = false;
  ASSIGN_OR_RETURN(task->others, ReadExamples(task->spec, *file, folder, true));
  ASSIGN_OR_RETURN(task->files_digest, DigestOf(*file, folder, task->files_digest));
  return absl::OkStatus();
}

}  // namespace

std::string DelimiterOf(const v1::TaskSpec& spec) {
  return spec.has_delimiter() ? spec.delimiter() : " ";
}

std::string SeparatorOf(const v1::TaskSpec& spec) {
  return spec.has_separator() ? spec.separator() : "\n\n";
}

std::string DemonstrationText(const v1::TaskSpec& spec, const TaskExample& example) {
  const size_t gold = static_cast<size_t>(example.gold);
  if (!spec.has_choice()) {
    return absl::StrCat(example.prompts[0], DelimiterOf(spec), example.references[0]);
  }
  return absl::StrCat(example.prompts[example.prompts.size() == 1 ? 0 : gold], DelimiterOf(spec),
                      example.continuations[gold]);
}

absl::StatusOr<const v1::TaskFile*> FindExamples(const v1::TaskSpec& spec,
                                                 const fs::path& data_dir) {
  ASSIGN_OR_RETURN(const v1::TaskFile* file,
                   FindTaskFile(spec.examples(), data_dir / TaskFolder(spec)));
  if (file != nullptr) return file;
  const std::string why = WhyNoTaskFile(spec.examples(), data_dir / TaskFolder(spec));
  if (!why.empty()) return absl::NotFoundError(why);
  return absl::NotFoundError(absl::StrCat("no files of task \"", spec.name(), "\" in ",
                                          data_dir.string(), "; expected ", ExpectedFiles(spec)));
}

absl::StatusOr<LoadedTask> LoadTask(const v1::TaskSpec& spec, const fs::path& data_dir,
                                    int num_shots) {
  const fs::path folder = data_dir / TaskFolder(spec);
  ASSIGN_OR_RETURN(const v1::TaskFile* file, FindExamples(spec, data_dir));
  LoadedTask task;
  task.spec = spec;
  ASSIGN_OR_RETURN(task.examples, ReadExamples(spec, *file, folder, false));
  if (!spec.free().group_by().empty()) task.examples = WithGroupsTogether(std::move(task.examples));
  ASSIGN_OR_RETURN(task.files_digest, DigestOf(*file, folder, 0));
  if (num_shots > 0) RETURN_IF_ERROR(LoadDemonstrations(*file, folder, &task));
  return task;
}

}  // namespace braid
