#include "proto/config_text.h"

#include <memory>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
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

absl::Status UnknownField(const Descriptor& type, std::string_view name) {
  return absl::InvalidArgumentError(absl::StrCat("unknown configuration key \"", Abseil(name),
                                                 "\" in ", std::string(type.name()),
                                                 DidYouMeanOrKnown(name, FieldNames(type))));
}

// Keeps the first parse error with its line and column.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (!message_.empty()) return;
    position_ = absl::StrCat(line + 1, ":", column + 1);
    message_ = message;
  }
  // "LINE:COLUMN", from 1.
  const std::string& position() const { return position_; }
  const std::string& message() const { return message_; }

 private:
  std::string position_, message_;
};

// Appends the values of the enum fields of this name in `type` and in the messages nested in it.
void CollectValues(const Descriptor& type, const std::string& field,
                   std::vector<std::string>* values) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& candidate = *type.field(i);
    if (candidate.message_type() != nullptr) {
      CollectValues(*candidate.message_type(), field, values);
    } else if (candidate.enum_type() != nullptr && candidate.name() == field) {
      const std::vector<std::string> names = ValueNames(*candidate.enum_type());
      values->insert(values->end(), names.begin(), names.end());
    }
  }
}

// Returns the quoted words of an error of protobuf's parser.
std::vector<std::string> QuotedWords(const std::string& error) {
  std::vector<std::string> words;
  const std::vector<std::string> parts = absl::StrSplit(error, '"');
  for (size_t i = 1; i + 1 < parts.size(); i += 2) words.push_back(parts[i]);
  return words;
}

// Rephrases an error of protobuf's parser, which names its own classes: says which key or value is
// unknown, with a suggestion, or what the file should contain.
std::string Rephrased(const std::string& error, const Descriptor& type) {
  const std::vector<std::string> quoted = QuotedWords(error);
  // Message type "braid.v1.RunSpec" has no field named "stepps".
  if (quoted.size() == 2 && error.find("has no field named \"") != std::string::npos) {
    const Descriptor* const nested = type.file()->pool()->FindMessageTypeByName(quoted[0]);
    return std::string(UnknownField(nested == nullptr ? type : *nested, quoted[1]).message());
  }
  // Unknown enumeration value of "COSIN" for field "schedule".
  if (quoted.size() == 2 && error.starts_with("Unknown enumeration value of")) {
    std::vector<std::string> known;
    CollectValues(type, quoted[1], &known);
    return absl::StrCat(quoted[1], ": unknown value \"", quoted[0], "\"",
                        DidYouMeanOrKnown(absl::AsciiStrToUpper(quoted[0]), known));
  }
  constexpr std::string_view kRepeated = "Non-repeated field \"";
  if (error.starts_with(kRepeated)) {
    const std::string rest = error.substr(kRepeated.size());
    return absl::StrCat("got ", rest.substr(0, rest.find('"')),
                        " twice, expected each setting once");
  }
  constexpr std::string_view kNoKey = "Expected identifier, got: ";
  if (error.starts_with(kNoKey)) {
    const std::string got = error.substr(kNoKey.size());
    return absl::StrCat("got ", got.empty() ? "the end of the file" : got,
                        ", expected \"key: value\" or \"key "
                        "{ ... }\"");
  }
  if (error.find("non ascii codepoint") != std::string::npos ||
      error.find("Invalid control characters") != std::string::npos) {
    return "got binary data, expected text with one \"key: value\" per line";
  }
  std::string text = error;
  if (!text.empty()) text[0] = absl::ascii_tolower(static_cast<unsigned char>(text[0]));
  if (text.ends_with('.')) text.pop_back();
  return text;
}

absl::Status CheckEnum(std::string_view path, const FieldDescriptor& field,
                       std::string_view value) {
  const EnumDescriptor& type = *field.enum_type();
  if (type.FindValueByName(std::string(value)) != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(Abseil(path), ": unknown value \"", Abseil(value), "\"",
                   DidYouMeanOrKnown(absl::AsciiStrToUpper(Abseil(value)), ValueNames(type))));
}

std::string TextLiteral(const FieldDescriptor& field, std::string_view value) {
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) return std::string(value);
  return absl::StrCat("\"", absl::Utf8SafeCEscape(Abseil(value)), "\"");
}

std::string ExpectedText(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "a number";
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      return "an integer of at least 0";
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat("an integer of ",
                          field.cpp_type() == FieldDescriptor::CPPTYPE_INT32 ? 32 : 64, " bits");
    default:
      return "text";
  }
}

// `path` names the field in errors.
absl::Status SetScalar(Message* message, std::string_view path, const FieldDescriptor& field,
                       std::string_view value) {
  if (field.enum_type() != nullptr) {
    if (absl::Status known = CheckEnum(path, field, value); !known.ok()) return known;
  }
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  const std::string name(field.name());
  const absl::Status wrong_type = absl::InvalidArgumentError(
      absl::StrCat(Abseil(path), ": got \"", Abseil(value), "\", expected ", ExpectedText(field)));
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

// Merges a group of settings in text format, or appends a list of them. They are parsed apart from
// `message` first: text after the closing bracket could set other fields.
absl::Status SetGroup(Message* message, std::string_view path, const FieldDescriptor& field,
                      std::string_view value) {
  const std::unique_ptr<Message> parsed(message->New());
  const std::string text = absl::StrCat(std::string(field.name()), ": ", Abseil(value));
  if (absl::Status status = ParseConfig(text, path, parsed.get()); !status.ok()) return status;
  std::vector<const FieldDescriptor*> set;
  parsed->GetReflection()->ListFields(*parsed, &set);
  if (set.size() > 1 || (set.size() == 1 && set[0] != &field)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Abseil(path), ": got \"", Abseil(value.substr(0, 80)),
                     "\", expected one group of settings such as {name: value}"));
  }
  message->MergeFrom(*parsed);
  return absl::OkStatus();
}

// Clears the list at `path`; no effect if there is none.
void ClearList(Message* message, const std::string& path) {
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(path, '.'))) {
    const FieldDescriptor* const field = message->GetDescriptor()->FindFieldByName(name);
    if (field == nullptr) return;
    if (field->is_repeated()) return message->GetReflection()->ClearField(message, field);
    if (field->message_type() == nullptr) return;
    message = message->GetReflection()->MutableMessage(message, field);
  }
}

}  // namespace

absl::Status ParseConfig(std::string_view text, std::string_view source, Message* message) {
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  // Merging accepts a setting that is given twice, and takes the last value, so the text is parsed
  // by itself first.
  const std::unique_ptr<Message> parsed(message->New());
  if (parser.ParseFromString(std::string(text), parsed.get()) &&
      parser.MergeFromString(std::string(text), message)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(Abseil(source), ":", error.position(), ": ",
                   Rephrased(error.message(), *message->GetDescriptor())));
}

absl::Status SetFields(Message* message, std::span<const std::string> assignments) {
  std::set<std::string> seen;
  for (const std::string& assignment : assignments) {
    const std::string path = assignment.substr(0, assignment.find('='));
    if (seen.insert(path).second) ClearList(message, path);
    if (absl::Status set = SetField(message, assignment); !set.ok()) return set;
  }
  return absl::OkStatus();
}

absl::Status SetField(Message* message, std::string_view assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("setting \"", Abseil(assignment),
                     "\": got no =, expected PATH=VALUE with the path of a field of ",
                     std::string(message->GetDescriptor()->name())));
  }
  const std::vector<std::string> path = absl::StrSplit(Abseil(assignment.substr(0, equals)), '.');
  for (size_t i = 0;; ++i) {
    const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(path[i]);
    if (field == nullptr) return UnknownField(*message->GetDescriptor(), path[i]);
    const bool last = i + 1 == path.size();
    const bool is_message = field->message_type() != nullptr;
    if (last && !is_message) {
      return SetScalar(message, assignment.substr(0, equals), *field,
                       assignment.substr(equals + 1));
    }
    const std::string_view value = assignment.substr(equals + 1);
    if (last && !value.empty() && (value[0] == '{' || value[0] == '[')) {
      return SetGroup(message, assignment.substr(0, equals), *field, value);
    }
    if (is_message && field->is_repeated()) {
      return absl::InvalidArgumentError(
          absl::StrCat(absl::StrJoin(path, "."), ": \"", path[i],
                       "\" is a list of groups of settings; add one with ",
                       absl::StrJoin(path.begin(), path.begin() + static_cast<int64_t>(i) + 1, "."),
                       "={name: value}"));
    }
    if (last || !is_message) {
      return absl::InvalidArgumentError(absl::StrCat(
          absl::StrJoin(path, "."), ": \"", path[i], "\" is ",
          is_message ? "a group of settings; name one of its fields" : "a single value"));
    }
    message = message->GetReflection()->MutableMessage(message, field);
  }
}

}  // namespace braid
