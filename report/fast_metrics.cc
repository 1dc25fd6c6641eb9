#include "report/fast_metrics.h"

#include <simdjson.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

#include "absl/strings/numbers.h"
#include "google/protobuf/message.h"

namespace braid {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using simdjson::dom::element;

bool SetMessage(const simdjson::dom::object& object, Message* message);

// Proto3 JSON represents numbers that are not finite as strings.
bool GetDouble(const element& value, double* number) {
  if (value.get(*number) == simdjson::SUCCESS) return true;
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS) return false;
  const double infinity = std::numeric_limits<double>::infinity();
  *number = text == "Infinity" ? infinity : text == "-Infinity" ? -infinity : std::nan("");
  return text == "NaN" || std::isinf(*number);
}

// Proto3 JSON represents 64-bit integers as strings.
bool GetInt64(const element& value, int64_t* number) {
  if (value.get(*number) == simdjson::SUCCESS) return true;
  std::string_view text;
  return value.get(text) == simdjson::SUCCESS &&
         absl::SimpleAtoi(absl::string_view(text.data(), text.size()), number);
}

bool SetScalar(const element& value, const FieldDescriptor* field, Message* message) {
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
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      simdjson::dom::object inner;
      return value.get(inner) == simdjson::SUCCESS &&
             SetMessage(inner, reflection->MutableMessage(message, field));
    }
    default:
      return false;
  }
}

bool SetRepeated(const element& value, const FieldDescriptor* field, Message* message) {
  simdjson::dom::array array;
  if (value.get(array) != simdjson::SUCCESS) return false;
  const auto* reflection = message->GetReflection();
  for (const element one : array) {
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

// Returns false for a field or value that this reader does not support; the slow reader then
// decides.
bool SetMessage(const simdjson::dom::object& object, Message* message) {
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

absl::StatusOr<std::vector<v1::StepMetrics>> ReadAllMetrics(const RunDirectory& run) {
  std::vector<v1::StepMetrics> metrics;
  std::ifstream file(run.metrics(), std::ios::binary);
  simdjson::dom::parser parser;
  std::string line;
  while (std::getline(file, line) && !file.eof()) {
    simdjson::dom::object object;
    if (parser.parse(line).get(object) != simdjson::SUCCESS ||
        !SetMessage(object, &metrics.emplace_back())) {
      return run.ReadMetrics(0);
    }
  }
  return metrics;
}

}  // namespace braid
