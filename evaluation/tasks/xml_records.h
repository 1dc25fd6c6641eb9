// Reads the records of an XML file with Debian's libexpat, which refuses documents that are not
// well-formed and knows the line of each element.
#ifndef BRAID_EVALUATION_TASKS_XML_RECORDS_H_
#define BRAID_EVALUATION_TASKS_XML_RECORDS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "evaluation/tasks/task_record.h"

namespace braid {

// Returns a record for each element named `element`, at any depth but not inside another record.
// Its fields are its attributes and its child elements, whose text includes that of elements inside
// them; children of one name make a list. Text between the children is ignored. InvalidArgument,
// "NAME:LINE: ...", for a document that is not well-formed, is nested too deeply, has a document
// type declaration (which could define entities), or has an attribute and a child of one name.
absl::StatusOr<std::vector<TaskRecord>> ParseXmlRecords(absl::string_view text,
                                                        const std::string& name,
                                                        absl::string_view element);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_XML_RECORDS_H_
