// The objects of a JSON file, an array or one object a line, with the lines where they begin.
#ifndef BRAID_PIPELINE_SUPERVISED_JSON_OBJECTS_H_
#define BRAID_PIPELINE_SUPERVISED_JSON_OBJECTS_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace braid {

// Receives an object and its place: the line where it begins, "alpaca.json:12", or, for the second
// element of an array and those after it that begin on one line, "alpaca.json:12#2".
using TakeJsonObject =
    absl::FunctionRef<absl::Status(const nlohmann::json& object, const std::string& place)>;

// Calls `take` for every object of `text`, in order, until it returns an error. A text that begins
// with '[' is an array of objects, any other text has one object in each line that is not blank.
// Errors: those of `take`; INVALID_ARGUMENT, which names `file` and line, for text that is not
// UTF-8, not JSON, or an element that is not an object.
absl::Status ForEachJsonObject(std::string_view text, const std::string& file, TakeJsonObject take);

}  // namespace braid

#endif  // BRAID_PIPELINE_SUPERVISED_JSON_OBJECTS_H_
