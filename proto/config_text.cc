#include "proto/config_text.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/nearest_word.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"

namespace braid {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Converts to absl::string_view, which is not std::string_view in some builds of Abseil.
absl::string_view Abseil(std::string_view text) { return {text.data(), text.size()}; }

std::vector<std::string> FieldNames(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) {
    names.push_back(std::string(type.field(i)->name()));
  }
  return names;
}

std::vector<std::string> ValueNames(const EnumDescriptor& type) {
  std::vector<std::string> names;
  // The first value means "not set" and is not offered.
  for (int i = 1; i < type.value_count(); ++i) {
    names.push_back(std::string(type.value(i)->name()));
  }
  return names;
}

std::string Suggestion(std::string_view word, const std::vector<std::string>& known) {
  const std::string nearest = NearestWord(word, known);
  if (!nearest.empty()) return absl::StrCat("; did you mean \"", nearest, "\"?");
  return absl::StrCat("; known: ", absl::StrJoin(known, ", "));
}

absl::Status UnknownField(const Descriptor& type, std::string_view name) {
  return absl::InvalidArgumentError(absl::StrCat("unknown configuration key \"", Abseil(name),
                                                 "\" in ", std::string(type.name()),
                                                 Suggestion(name, FieldNames(type))));
}

// Keeps the first parse error with its line and column.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (message_.empty()) message_ = absl::StrCat(line + 1, ":", column + 1, ": ", message);
  }
  const std::string& message() const { return message_; }

 private:
  std::string message_;
};

// Appends the field names of `type` and of all messages nested in it.
void CollectNames(const Descriptor& type, std::vector<std::string>* names) {
  for (int i = 0; i < type.field_count(); ++i) {
    names->push_back(std::string(type.field(i)->name()));
    if (type.field(i)->message_type() != nullptr) {
      CollectNames(*type.field(i)->message_type(), names);
    }
  }
}

// Returns a suggestion for protobuf's error: Message type "T" has no field named "x".
std::string HintFor(const std::string& error, const Descriptor& type) {
  constexpr std::string_view kMarker = "no field named \"";
  const size_t begin = error.find(kMarker);
  if (begin == std::string::npos) return "";
  const size_t name = begin + kMarker.size();
  std::vector<std::string> known;
  CollectNames(type, &known);
  return Suggestion(error.substr(name, error.find('"', name) - name), known);
}

absl::Status CheckEnum(const FieldDescriptor& field, std::string_view value) {
  const EnumDescriptor& type = *field.enum_type();
  if (type.FindValueByName(std::string(value)) != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(std::string(field.name()), ": unknown value \"",
                                                 Abseil(value), "\"",
                                                 Suggestion(value, ValueNames(type))));
}

std::string TextLiteral(const FieldDescriptor& field, std::string_view value) {
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) return std::string(value);
  return absl::StrCat("\"", absl::Utf8SafeCEscape(Abseil(value)), "\"");
}

absl::Status SetScalar(Message* message, const FieldDescriptor& field, std::string_view value) {
  if (field.enum_type() != nullptr) {
    if (absl::Status known = CheckEnum(field, value); !known.ok()) return known;
  }
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  const std::string name(field.name());
  const absl::Status wrong_type = absl::InvalidArgumentError(absl::StrCat(
      name, ": got \"", Abseil(value), "\", expected ", std::string(field.cpp_type_name())));
  // White space or a separator in a value could set a second field.
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING &&
      value.find_first_of(" \t\r\n;,#") != std::string_view::npos) {
    return wrong_type;
  }
  if (!field.is_repeated()) message->GetReflection()->ClearField(message, &field);
  if (parser.MergeFromString(absl::StrCat(name, ": ", TextLiteral(field, value)), message)) {
    return absl::OkStatus();
  }
  return wrong_type;
}

}  // namespace

absl::Status ParseConfig(std::string_view text, std::string_view source, Message* message) {
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (parser.MergeFromString(std::string(text), message)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      Abseil(source), ":", error.message(), HintFor(error.message(), *message->GetDescriptor())));
}

absl::Status SetField(Message* message, std::string_view assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat("got \"", Abseil(assignment),
                                                   "\", expected KEY=VALUE, for example "
                                                   "model.num_layers=4"));
  }
  const std::vector<std::string> path = absl::StrSplit(Abseil(assignment.substr(0, equals)), '.');
  for (size_t i = 0;; ++i) {
    const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(path[i]);
    if (field == nullptr) return UnknownField(*message->GetDescriptor(), path[i]);
    const bool last = i + 1 == path.size();
    const bool is_message = field->message_type() != nullptr;
    if (last && !is_message) return SetScalar(message, *field, assignment.substr(equals + 1));
    if (last || !is_message) {
      return absl::InvalidArgumentError(absl::StrCat(
          absl::StrJoin(path, "."), ": \"", path[i], "\" is ",
          is_message ? "a group of settings; name one of its fields" : "a single value"));
    }
    message = message->GetReflection()->MutableMessage(message, field);
  }
}

}  // namespace braid
