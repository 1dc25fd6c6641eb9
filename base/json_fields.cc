#include "base/json_fields.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace braid {
namespace {

// Bytes of a value in a message.
constexpr size_t kShownJsonBytes = 200;

// Returns whether `value` is an integer within the range. The library compares signed with unsigned
// numbers by their values only if both are converted; a number above INT64_MAX is stored as
// unsigned.
bool IsIntegerWithin(const nlohmann::json& value, const IntegerRange& range) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
    return false;
  }
  const auto number = value.get<int64_t>();
  return number >= range.minimum && number <= range.maximum;
}

}  // namespace

JsonFields::JsonFields(const nlohmann::json& object, std::string source)
    : object_(object), source_(std::move(source)) {
  BRAID_CHECK(object.is_object()) << source_;
}

bool JsonFields::Has(const char* field) const { return !(*this)[field].is_null(); }

int64_t JsonFields::Integer(const char* field, const IntegerRange& range) {
  if (!Has(field) && range.fallback.has_value()) return *range.fallback;
  if (IsIntegerWithin((*this)[field], range)) return (*this)[field].get<int64_t>();
  Require(false, field, absl::StrCat("an integer from ", range.minimum, " to ", range.maximum));
  return range.fallback.value_or(range.minimum);
}

double JsonFields::Number(const char* field, double fallback) {
  if (!Has(field)) return fallback;
  const nlohmann::json& value = (*this)[field];
  Require(value.is_number(), field, "a number");
  return value.is_number() ? value.get<double>() : fallback;
}

bool JsonFields::Flag(const char* field, bool fallback) {
  if (!Has(field)) return fallback;
  const nlohmann::json& value = (*this)[field];
  Require(value.is_boolean(), field, "true or false");
  return value.is_boolean() ? value.get<bool>() : fallback;
}

std::string JsonFields::Text(const char* field, const std::string& fallback) {
  if (!Has(field)) return fallback;
  const nlohmann::json& value = (*this)[field];
  Require(value.is_string(), field, "a string");
  return value.is_string() ? value.get<std::string>() : fallback;
}

const nlohmann::json& JsonFields::operator[](const char* field) const {
  static const nlohmann::json absent;
  const auto found = object_.find(field);
  return found == object_.end() ? absent : *found;
}

void JsonFields::Require(bool good, const char* field, const std::string& expected) {
  if (good || !status_.ok()) return;
  // Escaped: a message must not carry the file's control characters to a terminal. A field may be
  // an object of thousands of names.
  std::string got =
      object_.contains(field) ? object_[field].dump(-1, ' ', /*ensure_ascii=*/true) : "nothing";
  if (got.size() > kShownJsonBytes) got.replace(kShownJsonBytes, got.npos, "...");
  status_ = absl::InvalidArgumentError(
      absl::StrCat(source_, ": ", field, ": got ", got, ", expected ", expected));
}

void JsonFields::RequireOnly(const char* field, const nlohmann::json& only,
                             const std::string& reason) {
  if (Has(field)) Require((*this)[field] == only, field, absl::StrCat(only.dump(), reason));
}

}  // namespace braid
