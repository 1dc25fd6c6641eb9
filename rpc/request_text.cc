#include "rpc/request_text.h"

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "google/protobuf/descriptor.h"

namespace braid {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

absl::Status CheckText(const FieldDescriptor& field, const std::string& text) {
  constexpr size_t kShownBytes = 200;
  if (IsValidUtf8(text)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      std::string(field.name()), ": got \"", absl::CHexEscape(text.substr(0, kShownBytes)),
      text.size() > kShownBytes ? "..." : "",
      "\", expected UTF-8; rename the directory or file, or convert the text with iconv"));
}

absl::Status CheckField(const Message& message, const FieldDescriptor& field) {
  const Reflection& values = *message.GetReflection();
  const bool is_text = field.type() == FieldDescriptor::TYPE_STRING;
  if (!is_text && field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return absl::OkStatus();
  if (!field.is_repeated()) {
    return is_text ? CheckText(field, values.GetString(message, &field))
                   : CheckUtf8(values.GetMessage(message, &field));
  }
  for (int i = 0; i < values.FieldSize(message, &field); ++i) {
    RETURN_IF_ERROR(is_text ? CheckText(field, values.GetRepeatedString(message, &field, i))
                            : CheckUtf8(values.GetRepeatedMessage(message, &field, i)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckUtf8(const Message& request) {
  std::vector<const FieldDescriptor*> fields;
  request.GetReflection()->ListFields(request, &fields);
  for (const FieldDescriptor* const field : fields) RETURN_IF_ERROR(CheckField(request, *field));
  return absl::OkStatus();
}

}  // namespace braid
