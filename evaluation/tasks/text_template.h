// Text templates with fields of a record: "Question: {goal}\nAnswer:".
//
// A field is written {path|filter|filter:argument}; "{{" and "}}" stand for braces. Filters:
//   strip         removes white space at both ends
//   lower         converts ASCII letters to lower case
//   capitalize    converts the first letter to upper case, the others to lower case (ASCII)
//   suffix:X      appends X unless the text ends with it
//   before:X      the text before the first X; after:X the text after it. An error if there
//                 is no X.
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

  // Parses a template. InvalidArgument, naming `what`, for an unbalanced brace or an unknown
  // filter.
  static absl::StatusOr<TextTemplate> Parse(absl::string_view text, absl::string_view what);

  // Renders the template. `choice` becomes the field "choice" when given. InvalidArgument names the
  // record's place.
  absl::StatusOr<std::string> Render(const TaskRecord& record,
                                     const std::optional<std::string>& choice = {}) const;

  bool Uses(absl::string_view field) const;

 private:
  struct Filter {
    std::string name;
    std::string argument;
  };
  // Literal text followed by a field, unless `field` is empty.
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
