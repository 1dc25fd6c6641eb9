#include "proto/stated_defaults.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "google/protobuf/descriptor.h"
#include "proto/field_help.h"

namespace braid {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Returns the value of "1000" or "16 MiB"; nullopt for a text that is not a literal.
std::optional<int64_t> ParseInteger(const std::string& text) {
  constexpr std::pair<const char*, int> kUnits[] = {
      {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits(' ', 1));
  int64_t number = 0;
  if (!absl::SimpleAtoi(parts.first, &number)) return std::nullopt;
  if (parts.second.empty()) return number;
  for (const auto& [name, shift] : kUnits) {
    if (parts.second == name) return number << shift;
  }
  return std::nullopt;
}

void SetInteger(const std::string& text, const FieldDescriptor& field, Message* message) {
  const std::optional<int64_t> value = ParseInteger(text);
  if (!value) return;
  const Reflection& access = *message->GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
    access.SetInt64(message, &field, *value);
    return;
  }
  BRAID_CHECK(*value <= std::numeric_limits<int32_t>::max()) << std::string(field.full_name());
  access.SetInt32(message, &field, static_cast<int32_t>(*value));
}

void SetText(const std::string& text, const FieldDescriptor& field, Message* message) {
  if (text.size() < 2 || text.front() != '"' || text.find('"', 1) != text.size() - 1) return;
  message->GetReflection()->SetString(message, &field, text.substr(1, text.size() - 2));
}

void SetLiteral(const std::string& text, const FieldDescriptor& field, Message* message) {
  double number = 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
      return SetInteger(text, field, message);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      if (absl::SimpleAtod(text, &number)) {
        message->GetReflection()->SetDouble(message, &field, number);
      }
      return;
    case FieldDescriptor::CPPTYPE_ENUM:
      if (const auto* value = field.enum_type()->FindValueByName(text); value != nullptr) {
        message->GetReflection()->SetEnum(message, &field, value);
      }
      return;
    case FieldDescriptor::CPPTYPE_STRING:
      return SetText(text, field, message);
    default:
      return;
  }
}

// Returns whether an absent field means its default: for a number without presence, 0 is a value.
bool HasDefault(const FieldDescriptor& field) {
  return !field.is_repeated() && (field.has_presence() || field.enum_type() != nullptr ||
                                  field.cpp_type() == FieldDescriptor::CPPTYPE_STRING);
}

}  // namespace

void FillStatedDefaults(Message* message) {
  const google::protobuf::Descriptor& type = *message->GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (!HasDefault(field) || message->GetReflection()->HasField(*message, &field)) continue;
    const auto help = FindFieldHelp(std::string(type.full_name()), std::string(field.name()));
    BRAID_CHECK(help.ok()) << help.status();
    SetLiteral(help->default_value, field, message);
  }
}

}  // namespace braid
