#include "runs/metrics_line.h"

#include <simdjson.h>

#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include "absl/strings/numbers.h"
#include "google/protobuf/message.h"
#include "google/protobuf/util/json_util.h"

namespace braid {
namespace {

using google::protobuf::FieldDescriptor;
using JsonValue = simdjson::dom::element;

bool SetMessage(const simdjson::dom::object& object, google::protobuf::Message* message);

// Proto3 JSON writes numbers that are not finite as strings.
bool GetDouble(const JsonValue& value, double* number) {
  if (value.get(*number) == simdjson::SUCCESS) return true;
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS) return false;
  const double infinity = std::numeric_limits<double>::infinity();
  *number = text == "Infinity" ? infinity : text == "-Infinity" ? -infinity : std::nan("");
  return text == "NaN" || std::isinf(*number);
}

// Proto3 JSON writes 64-bit integers as strings.
bool GetInt64(const JsonValue& value, int64_t* number) {
  if (value.get(*number) == simdjson::SUCCESS) return true;
  std::string_view text;
  return value.get(text) == simdjson::SUCCESS &&
         absl::SimpleAtoi(absl::string_view(text.data(), text.size()), number);
}

bool SetScalar(const JsonValue& value, const FieldDescriptor* field,
               google::protobuf::Message* message) {
  const auto* reflection = message->GetReflection();
  double real = 0;
  int64_t integer = 0;
  bool flag = false;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_DOUBLE:
      if (!GetDouble(value, &real)) return false;
      reflection->SetDouble(message, field, real);
      return true;
    case FieldDescriptor::CPPTYPE_INT64:
      if (!GetInt64(value, &integer)) return false;
      reflection->SetInt64(message, field, integer);
      return true;
    case FieldDescriptor::CPPTYPE_INT32:
      if (!GetInt64(value, &integer) || integer != static_cast<int32_t>(integer)) return false;
      reflection->SetInt32(message, field, static_cast<int32_t>(integer));
      return true;
    case FieldDescriptor::CPPTYPE_BOOL:
      if (value.get(flag) != simdjson::SUCCESS) return false;
      reflection->SetBool(message, field, flag);
      return true;
    case FieldDescriptor::CPPTYPE_STRING: {
      std::string_view text;
      if (value.get(text) != simdjson::SUCCESS) return false;
      reflection->SetString(message, field, std::string(text));
      return true;
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      std::string_view name;
      if (value.get(name) != simdjson::SUCCESS) return false;
      const auto* number = field->enum_type()->FindValueByName(std::string(name));
      if (number == nullptr) return false;
      reflection->SetEnum(message, field, number);
      return true;
    }
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      simdjson::dom::object inner;
      return value.get(inner) == simdjson::SUCCESS &&
             SetMessage(inner, reflection->MutableMessage(message, field));
    }
    default:
      return false;
  }
}

bool SetRepeated(const JsonValue& value, const FieldDescriptor* field,
                 google::protobuf::Message* message) {
  simdjson::dom::array array;
  if (value.get(array) != simdjson::SUCCESS) return false;
  const auto* reflection = message->GetReflection();
  for (const JsonValue one : array) {
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
      double number = 0;
      if (!GetDouble(one, &number)) return false;
      reflection->AddDouble(message, field, number);
      continue;
    }
    simdjson::dom::object inner;
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE ||
        one.get(inner) != simdjson::SUCCESS ||
        !SetMessage(inner, reflection->AddMessage(message, field))) {
      return false;
    }
  }
  return true;
}

// Returns false for anything it does not know, including unknown fields: protobuf's own parser then
// decides.
bool SetMessage(const simdjson::dom::object& object, google::protobuf::Message* message) {
  for (const auto pair : object) {
    const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(std::string(pair.key));
    if (!field) return false;
    if (!(field->is_repeated() ? SetRepeated(pair.value, field, message)
                               : SetScalar(pair.value, field, message))) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool ParseMetricsLine(const std::string& line, v1::StepMetrics* metrics) {
  static thread_local simdjson::dom::parser parser;
  metrics->Clear();
  simdjson::dom::object object;
  if (parser.parse(line).get(object) == simdjson::SUCCESS && SetMessage(object, metrics)) {
    return true;
  }
  metrics->Clear();
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  return google::protobuf::util::JsonStringToMessage(line, metrics, options).ok();
}

}  // namespace braid
