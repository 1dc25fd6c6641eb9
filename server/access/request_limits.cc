#include "server/access/request_limits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/explanation_limits.h"

namespace braid {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int64_t kMessageBytes = int64_t{4} << 20;  // the size limit of a whole message
constexpr int64_t kPromptBytes = int64_t{1} << 20;

constexpr std::array kExceptions = {
    FieldLimit{.field = "braid.v1.CorpusSpec.paths", .max_elements = 65536},
    FieldLimit{.field = "braid.v1.DescribeCorpusRequest.paths", .max_elements = 65536},
    FieldLimit{.field = "braid.v1.ExplainInstancesRequest.instances",
               .max_elements = kMaxExplainedInstances},
    FieldLimit{
        .field = "braid.v1.GenerateRequest.prompt", .max_bytes = kPromptBytes, .is_text = true},
    FieldLimit{
        .field = "braid.v1.GenerateRequest.system", .max_bytes = kPromptBytes, .is_text = true},
    FieldLimit{
        .field = "braid.v1.ExportRequest.bake_prompt", .max_bytes = kPromptBytes, .is_text = true},
    FieldLimit{.field = "braid.v1.EmbedRequest.texts",
               .max_bytes = kMessageBytes,
               .max_elements = 65536,
               .is_text = true},
    // Texts of prompts, which have line breaks.
    FieldLimit{.field = "braid.v1.ChoiceAnswer.continuation", .is_text = true},
    FieldLimit{.field = "braid.v1.ChoiceAnswer.unconditional_context", .is_text = true},
    FieldLimit{.field = "braid.v1.FieldValue.becomes", .is_text = true},
    FieldLimit{.field = "braid.v1.FreeAnswer.stop", .is_text = true},
    FieldLimit{.field = "braid.v1.TaskField.text", .is_text = true},
    FieldLimit{.field = "braid.v1.TaskSpec.delimiter", .is_text = true},
    FieldLimit{.field = "braid.v1.TaskSpec.description", .is_text = true},
    FieldLimit{.field = "braid.v1.TaskSpec.prompt", .is_text = true},
    FieldLimit{.field = "braid.v1.TaskSpec.separator", .is_text = true},
    FieldLimit{.field = "braid.v1.TextReplacement.pattern", .is_text = true},
    FieldLimit{.field = "braid.v1.TextReplacement.with", .is_text = true},
    // Bounded by the size of the message: a value has four bytes, an id at least one.
    FieldLimit{.field = "braid.v1.TrainShardRequest.values", .max_elements = kMessageBytes / 4},
    FieldLimit{.field = "braid.v1.SetCentroidsRequest.values", .max_elements = kMessageBytes / 4},
    FieldLimit{.field = "braid.v1.AddVectorsRequest.values", .max_elements = kMessageBytes / 4},
    FieldLimit{.field = "braid.v1.AddVectorsRequest.ids", .max_elements = kMessageBytes},
    FieldLimit{.field = "braid.v1.SearchRequest.values", .max_elements = kMessageBytes / 4},
};

bool IsControl(unsigned char c) { return c < 0x20 || c == 0x7f; }

// The functions below return the problem with a value, or "" if there is none. The text is composed
// only for a problem, since a request may have a million values. It begins after the path of the
// value, ": got 3, expected 2", and callers prepend the path.
std::string OutOfBounds(std::string_view got, std::string_view expected) {
  return absl::StrCat(": got ", std::string(got), ", expected ", std::string(expected));
}

std::string CheckString(const std::string& value, const FieldLimit& limit, bool is_bytes) {
  if (static_cast<int64_t>(value.size()) > limit.max_bytes) {
    return OutOfBounds(absl::StrCat(value.size(), " bytes"),
                       absl::StrCat("at most ", limit.max_bytes));
  }
  if (is_bytes || limit.is_text || std::ranges::none_of(value, IsControl)) return "";
  return OutOfBounds("a control character", "printable text");
}

std::string CheckFinite(double value) {
  return std::isfinite(value) ? "" : OutOfBounds(absl::StrCat(value), "a finite number");
}

std::string CheckEnum(const FieldDescriptor& field, int value) {
  if (field.enum_type()->FindValueByNumber(value) != nullptr) return "";
  return OutOfBounds(absl::StrCat(value),
                     absl::StrCat("a value of ", std::string(field.enum_type()->full_name())));
}

std::string CheckMessage(const Message& message);

std::string InMessage(const Message& message) {
  const std::string problem = CheckMessage(message);
  return problem.empty() ? "" : absl::StrCat(".", problem);
}

// `index`: the element of a repeated field; negative for other fields.
std::string CheckValue(const Message& message, const FieldDescriptor& field, int index,
                       const FieldLimit& limit) {
  const Reflection& reflection = *message.GetReflection();
  const bool one = index < 0;
  std::string scratch;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return CheckString(
          one ? reflection.GetStringReference(message, &field, &scratch)
              : reflection.GetRepeatedStringReference(message, &field, index, &scratch),
          limit, field.type() == FieldDescriptor::TYPE_BYTES);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return CheckFinite(one ? reflection.GetDouble(message, &field)
                             : reflection.GetRepeatedDouble(message, &field, index));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return CheckFinite(one ? reflection.GetFloat(message, &field)
                             : reflection.GetRepeatedFloat(message, &field, index));
    case FieldDescriptor::CPPTYPE_ENUM:
      return CheckEnum(field, one ? reflection.GetEnumValue(message, &field)
                                  : reflection.GetRepeatedEnumValue(message, &field, index));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return InMessage(one ? reflection.GetMessage(message, &field)
                           : reflection.GetRepeatedMessage(message, &field, index));
    default:
      return "";  // an integer; its meaning is checked by the service
  }
}

bool IsInteger(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
    case FieldDescriptor::CPPTYPE_BOOL:
      return true;
    default:
      return false;
  }
}

std::string CheckRepeated(const Message& message, const FieldDescriptor& field,
                          const FieldLimit& limit) {
  const int size = message.GetReflection()->FieldSize(message, &field);
  if (size > limit.max_elements) {
    return OutOfBounds(absl::StrCat(size, " elements"),
                       absl::StrCat("at most ", limit.max_elements));
  }
  // Integers have no bound here, and there may be millions of them.
  for (int i = 0; !IsInteger(field) && i < size; ++i) {
    const std::string problem = CheckValue(message, field, i, limit);
    if (!problem.empty()) return absl::StrCat("[", i, "]", problem);
  }
  return "";
}

std::string CheckMessage(const Message& message) {
  std::vector<const FieldDescriptor*> fields;
  // Only fields that are set; defaults are within all bounds.
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const FieldLimit limit = LimitOf(*field);
    const std::string problem = field->is_repeated() ? CheckRepeated(message, *field, limit)
                                                     : CheckValue(message, *field, -1, limit);
    if (!problem.empty()) return std::string(field->name()) + problem;
  }
  return "";
}

}  // namespace

FieldLimit LimitOf(const FieldDescriptor& field) {
  const std::string name(field.full_name());
  const auto* const found =
      std::ranges::find(kExceptions, std::string_view(name), &FieldLimit::field);
  return found == kExceptions.end() ? FieldLimit() : *found;
}

std::span<const FieldLimit> FieldLimitExceptions() { return kExceptions; }

absl::Status CheckLimits(const Message& request) {
  const std::string problem = CheckMessage(request);
  return problem.empty() ? absl::OkStatus() : absl::InvalidArgumentError(problem);
}

}  // namespace braid
