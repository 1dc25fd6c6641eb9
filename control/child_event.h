// Parses the output lines of a braid-trainer child.
#ifndef BRAID_CONTROL_CHILD_EVENT_H_
#define BRAID_CONTROL_CHILD_EVENT_H_

#include <google/protobuf/util/json_util.h>

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace braid {

template <class Event>
absl::StatusOr<Event> ParseChildEvent(std::string_view text) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  Event event;
  if (google::protobuf::util::JsonStringToMessage(std::string(text), &event, options).ok()) {
    return event;
  }
  return absl::InternalError(absl::StrCat("braid-trainer wrote a line that is not an event: ",
                                          std::string(text.substr(0, 200))));
}

}  // namespace braid

#endif  // BRAID_CONTROL_CHILD_EVENT_H_
