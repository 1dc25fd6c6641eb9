#include "pipeline/corpus/json_record.h"

#include <simdjson.h>

#include <limits>

#include "base/utf8.h"

namespace braid {

using simdjson::dom::element;

struct JsonRecord::Parsed {
  simdjson::dom::parser parser;
  simdjson::dom::object object;

  std::optional<element> Find(std::string_view name) const {
    element found;
    if (object.at_key(name).get(found) == simdjson::SUCCESS) return found;
    simdjson::dom::object inner = object;
    for (size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.')) {
      if (inner.at_key(name.substr(0, dot)).get(inner) != simdjson::SUCCESS) return std::nullopt;
      name.remove_prefix(dot + 1);
      if (inner.at_key(name).get(found) == simdjson::SUCCESS) return found;
    }
    return std::nullopt;
  }
};

JsonRecord::JsonRecord() : parsed_(std::make_unique<Parsed>()) {}
JsonRecord::~JsonRecord() = default;

std::string_view JsonRecord::Parse(std::string_view line) {
  constexpr size_t kKeptBytes = size_t{4} << 20;
  // Buffers grow to 14 times the longest line. After a rare long line they are released.
  if (parsed_->parser.capacity() > kKeptBytes && line.size() <= kKeptBytes) {
    parsed_->parser = simdjson::dom::parser();
  }
  // Newer versions of simdjson skip a byte order mark, which is not valid in a line.
  if (line.starts_with("\xEF\xBB\xBF")) return "invalid json";
  element root;
  const auto error = parsed_->parser.parse(line.data(), line.size(), false).get(root);
  if (error == simdjson::UTF8_ERROR) return "invalid utf-8";
  if (error == simdjson::CAPACITY) return "too long";
  if (error == simdjson::DEPTH_ERROR) return "nested too deep";
  if (error != simdjson::SUCCESS) {
    // The parser may report an invalid byte as an invalid string.
    return IsValidUtf8(line) ? "invalid json" : "invalid utf-8";
  }
  if (root.get(parsed_->object) != simdjson::SUCCESS) return "not an object";
  return "";
}

bool JsonRecord::Has(std::string_view name) const { return parsed_->Find(name).has_value(); }

std::optional<std::string_view> JsonRecord::String(std::string_view name) const {
  const std::optional<element> found = parsed_->Find(name);
  std::string_view value;
  if (!found || found->get(value) != simdjson::SUCCESS) return std::nullopt;
  return value;
}

std::optional<std::string> JsonRecord::Label(std::string_view name) const {
  const std::optional<element> found = parsed_->Find(name);
  if (!found) return std::nullopt;
  if (found->is_int64()) return std::to_string(found->get_int64().value_unsafe());
  if (found->is_uint64()) return std::to_string(found->get_uint64().value_unsafe());
  if (found->is_bool()) return found->get_bool().value_unsafe() ? "true" : "false";
  const std::optional<std::string_view> text = String(name);
  if (!text || text->empty() || !IsValidUtf8(*text)) return std::nullopt;
  return std::string(*text);
}

std::optional<FieldValue> JsonRecord::Scalar(std::string_view name) const {
  const std::optional<element> found = parsed_->Find(name);
  if (!found) return FieldValue();
  switch (found->type()) {
    case simdjson::dom::element_type::NULL_VALUE:
      return FieldValue();
    case simdjson::dom::element_type::BOOL:
      return FieldValue(found->get_bool().value_unsafe());
    case simdjson::dom::element_type::INT64:
      return FieldValue(static_cast<long double>(found->get_int64().value_unsafe()));
    case simdjson::dom::element_type::UINT64:
      return FieldValue(static_cast<long double>(found->get_uint64().value_unsafe()));
    case simdjson::dom::element_type::DOUBLE:
      return FieldValue(static_cast<long double>(found->get_double().value_unsafe()));
    case simdjson::dom::element_type::STRING:
      return FieldValue(std::string_view(found->get_string().value_unsafe()));
    default:
      return std::nullopt;
  }
}

void JsonRecord::Numbers(std::string_view name, std::vector<float>* values) const {
  values->clear();
  const std::optional<element> found = parsed_->Find(name);
  simdjson::dom::array array;
  if (!found || found->get(array) != simdjson::SUCCESS) return;
  for (const element item : array) {
    double value = 0;
    const bool is_number = item.get(value) == simdjson::SUCCESS;
    values->push_back(is_number ? static_cast<float>(value)
                                : std::numeric_limits<float>::quiet_NaN());
  }
}

std::vector<std::string> JsonRecord::FieldNames() const {
  std::vector<std::string> names;
  for (const auto field : parsed_->object) names.emplace_back(field.key);
  return names;
}

}  // namespace braid
