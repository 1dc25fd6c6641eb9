// One line of a JSON lines file, parsed as an object with named fields.
#ifndef BRAID_PIPELINE_CORPUS_JSON_RECORD_H_
#define BRAID_PIPELINE_CORPUS_JSON_RECORD_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/corpus/record_filter.h"

namespace braid {

// A parser that is reused from record to record. Not thread-safe. A name is that of a top-level
// field or, if there is none, a path with dots ("meta.source").
class JsonRecord {
 public:
  JsonRecord();
  ~JsonRecord();

  // Parses and validates a whole line. Returns "" or the reason for rejecting it: "invalid utf-8",
  // "invalid json", "not an object", "nested too deep" (over 1024 levels), "too long" (over 4 GiB).
  // Integers beyond 64 bits and numbers beyond 1.8e308 are invalid. Of fields with the same name,
  // the first counts. Requires: LineReader::kPaddingBytes bytes are readable after the line.
  std::string_view Parse(std::string_view line);

  // The functions below refer to the line parsed last; their results are valid until the next
  // Parse().

  // Returns whether the field exists.
  bool Has(std::string_view name) const;
  // Returns a string field; nullopt for other types. The string may be invalid UTF-8 if the JSON
  // contains an unpaired surrogate.
  std::optional<std::string_view> String(std::string_view name) const;
  // Returns a string, integer or boolean field as text; nullopt if it is empty or of another type.
  std::optional<std::string> Label(std::string_view name) const;
  // Returns the value of a field, null for an absent one; nullopt for an array or object.
  std::optional<FieldValue> Scalar(std::string_view name) const;
  // Stores the elements of an array of numbers. Elements of other types become NaN; any other field
  // gives no values.
  void Numbers(std::string_view name, std::vector<float>* values) const;
  // Returns the names of the top-level fields in order.
  std::vector<std::string> FieldNames() const;

 private:
  struct Parsed;
  std::unique_ptr<Parsed> parsed_;
};

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_JSON_RECORD_H_
