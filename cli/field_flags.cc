#include "cli/field_flags.h"

#include <cstdlib>
#include <iostream>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/arguments.h"
#include "proto/config_text.h"
#include "proto/field_help.h"

namespace braid {
namespace {

using google::protobuf::FieldDescriptor;

FieldHelp RequireFieldHelp(const std::string& message, const std::string& path) {
  absl::StatusOr<FieldHelp> help = FindFieldHelp(message, path);
  if (help.ok() && !help->summary.empty()) return *std::move(help);
  // A defect of the program, which a test finds: an alias of a field that does not exist.
  std::cerr << "no help text for " << path << " of " << message << std::endl;
  std::abort();
}

std::string TypeName(const FieldDescriptor& field) {
  if (field.enum_type() != nullptr) {
    std::string names;
    // The first value means "not set".
    for (int i = 1; i < field.enum_type()->value_count(); ++i) {
      absl::StrAppend(&names, i > 1 ? "|" : "",
                      FlagWord(std::string(field.enum_type()->value(i)->name())));
    }
    return names;
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return "TEXT";
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT:
      return "FLOAT";
    default:
      return "INT";
  }
}

// Returns the value as SetField takes it: that of an enum in any case, such as "key-mean".
std::string FieldValue(const FieldDescriptor& field, const std::string& word) {
  if (field.enum_type() == nullptr) return word;
  const std::string name = EnumName(word);
  return field.enum_type()->FindValueByName(name) != nullptr ? name : word;
}

// Returns whether 0 is a valid value, since the default in the field's comment is 0, such as "0" or
// "0, which keeps documents whole".
bool HasDefaultZero(const FieldHelp& help) {
  return help.default_value == "0" || help.default_value.starts_with("0, ");
}

void CheckRange(const FieldHelp& help, CLI::Option* option) {
  const FieldDescriptor& field = *help.field;
  const int64_t minimum = HasDefaultZero(help) ? 0 : 1;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      if (field.is_repeated()) break;  // such as paths, whose readers name them
      option->check(NotEmpty("text, or no " + option->get_name() + " for the default"));
      break;
    case FieldDescriptor::CPPTYPE_INT32:
      if (field.is_repeated()) break;  // such as layers, which may count from the last
      option->check(IntegerBetween(minimum, std::numeric_limits<int32_t>::max()));
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      option->check(IntegerBetween(minimum, std::numeric_limits<int64_t>::max()));
      break;
    case FieldDescriptor::CPPTYPE_UINT64:
      option->check(Seed());
      break;
    default:
      break;
  }
}

// Newer versions of CLI11 pass on what follows the = of a flag that has a function, and count any
// text as 0.
CLI::Validator FlagValue() {
  return CLI::Validator(
      [](std::string& text) {
        int64_t count = 0;
        if (text == "true" || text == "false" || absl::SimpleAtoi(text, &count)) {
          return std::string();
        }
        return absl::StrCat("got \"", text, "\", expected true, false or no value");
      },
      "");
}

// Returns the default as the flag takes it: "key-mean", not KEY_MEAN.
std::string DefaultWord(const FieldHelp& help) {
  const auto* const values = help.field->enum_type();
  const bool is_value = values != nullptr && values->FindValueByName(help.default_value) != nullptr;
  return is_value ? FlagWord(help.default_value) : help.default_value;
}

std::string HelpText(const FieldHelp& help, const std::string& full_path) {
  return absl::StrCat(
      help.summary,
      help.default_value.empty() ? "" : absl::StrCat(" (default: ", DefaultWord(help), ")"),
      full_path.empty() ? "" : absl::StrCat(" [", full_path, "]"));
}

}  // namespace

CLI::Option* FieldFlags::Add(CLI::App* command, const std::string& flag, const std::string& path) {
  const FieldHelp help = RequireFieldHelp(message_, path);
  const std::string text = HelpText(help, prefix_ ? *prefix_ + path : "");
  if (help.field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
    return command
        ->add_flag_function(
            flag,
            [this, path](int64_t count) {
              values_.emplace_back(path, count > 0 ? "true" : "false");
            },
            text)
        ->check(FlagValue());
  }
  CLI::Option* option = nullptr;
  if (help.field->is_repeated()) {
    option = command->add_option_function<std::vector<std::string>>(
        flag,
        [this, path, field = help.field](const std::vector<std::string>& values) {
          for (const std::string& value : values) {
            values_.emplace_back(path, FieldValue(*field, value));
          }
        },
        text);
  } else {
    option = command->add_option_function<std::string>(
        flag,
        [this, path, field = help.field](const std::string& value) {
          values_.emplace_back(path, FieldValue(*field, value));
        },
        text);
  }
  option->type_name(TypeName(*help.field));
  CheckRange(help, option);
  return option;
}

absl::Status FieldFlags::Apply(google::protobuf::Message* message) const {
  return SetFields(message, Assignments());
}

std::vector<std::string> FieldFlags::Assignments() const {
  std::vector<std::string> assignments;
  for (const auto& [path, value] : values_) assignments.push_back(absl::StrCat(path, "=", value));
  return assignments;
}

std::string FieldHelpText(const std::string& message, const std::string& prefix,
                          const std::string& path) {
  return HelpText(RequireFieldHelp(message, path), prefix + path);
}

}  // namespace braid
