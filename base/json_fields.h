// Reading typed fields of a JSON object that was written by someone else.
#ifndef BRAID_BASE_JSON_FIELDS_H_
#define BRAID_BASE_JSON_FIELDS_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace braid {

struct IntegerRange {
  int64_t minimum = 0;
  int64_t maximum = INT32_MAX;
  // Returned for an absent field; nullopt: the field is required.
  std::optional<int64_t> fallback = std::nullopt;
};

// Reads the fields of one object. The first error is kept in status(); every getter returns a value
// that callers can continue with, so that one check after all fields is enough:
//
//   JsonFields fields(object, path.string());
//   config.num_layers = fields.Integer("num_layers", {.minimum = 1});
//   config.epsilon = fields.Number("epsilon", 1e-6);
//   RETURN_IF_ERROR(fields.status());
//
// Errors are INVALID_ARGUMENT: "config.json: num_layers: got "x", expected an integer from 1 to
// 2147483647". Null counts as absent, as it does in Python. Not thread-safe.
class JsonFields {
 public:
  // `object` must be a JSON object and outlive this. `source` begins every message.
  JsonFields(const nlohmann::json& object, std::string source);

  bool Has(const char* field) const;

  // Returns the field's value; after an error, the range's fallback or minimum.
  int64_t Integer(const char* field, const IntegerRange& range = {});
  // Return the field's value; `fallback` for an absent field and after an error.
  double Number(const char* field, double fallback);
  bool Flag(const char* field, bool fallback = false);
  std::string Text(const char* field, const std::string& fallback);

  // Returns the field's value; null if it is absent.
  const nlohmann::json& operator[](const char* field) const;

  // Records an error about `field` unless `good`. `expected` describes the values that are
  // accepted, after "expected ".
  void Require(bool good, const char* field, const std::string& expected);
  // Records an error unless the field is absent or equals `only`. `reason` is appended.
  void RequireOnly(const char* field, const nlohmann::json& only, const std::string& reason = "");

  const absl::Status& status() const { return status_; }

 private:
  const nlohmann::json& object_;
  const std::string source_;
  absl::Status status_;
};

}  // namespace braid

#endif  // BRAID_BASE_JSON_FIELDS_H_
