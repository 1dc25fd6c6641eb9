#include "rpc/request_text.h"

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "proto/message_texts.h"

namespace braid {
namespace {

using google::protobuf::FieldDescriptor;

absl::Status CheckText(const FieldDescriptor& field, const std::string& text) {
  constexpr size_t kShownBytes = 200;
  if (IsValidUtf8(text)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      std::string(field.name()), ": got \"", absl::CHexEscape(text.substr(0, kShownBytes)),
      text.size() > kShownBytes ? "..." : "",
      "\", expected UTF-8; rename the directory or file, or convert the text with iconv"));
}

}  // namespace

absl::Status CheckUtf8(const google::protobuf::Message& request) {
  absl::Status status;
  ForEachText(request, [&](const FieldDescriptor& field, const std::string& text) {
    if (status.ok()) status = CheckText(field, text);
  });
  return status;
}

}  // namespace braid
