// Texts with fields of a record in them: "Question: {goal}\nAnswer:".
//
// {path|filter|filter:argument}; "{{" and "}}" stand for braces. Filters:
//   strip         without white space at both ends
//   lower         ASCII letters in lower case
//   capitalize    the first letter in upper case, the others in lower case (ASCII)
//   suffix:X      X appended, unless the text ends with it
//   before:X      what stands before the first X; after:X what stands behind it. An error
//                 where there is no X.
#ifndef BRAID_EVALUATION_TASKS_TEXT_TEMPLATE_H_
#define BRAID_EVALUATION_TASKS_TEXT_TEMPLATE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "evaluation/tasks/task_record.h"

namespace braid {

class TextTemplate {
 public:
  TextTemplate() = default;

  // InvalidArgument for a brace without its partner and an unknown filter, naming `what`.
  static absl::StatusOr<TextTemplate> Parse(absl::string_view text, absl::string_view what);

  // `choice` is the field "choice", when given. InvalidArgument with the record's place.
  absl::StatusOr<std::string> Render(const TaskRecord& record,
                                     const std::optional<std::string>& choice = {}) const;

  bool Uses(absl::string_view field) const;

 private:
  struct Filter {
    std::string name;
    std::string argument;
  };
  // Text as it is, then a field unless `field` is empty.
  struct Part {
    std::string text;
    std::string field;
    std::vector<Filter> filters;
  };

  static absl::StatusOr<Part> ParseField(absl::string_view inside, absl::string_view what);
  static absl::Status Apply(const Filter& filter, const TaskRecord& record, std::string* text);

  std::vector<Part> parts_;
};

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_TEXT_TEMPLATE_H_
