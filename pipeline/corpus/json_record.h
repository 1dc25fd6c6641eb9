// One line of a JSON lines file, as an object of named fields.
#ifndef BRAID_PIPELINE_CORPUS_JSON_RECORD_H_
#define BRAID_PIPELINE_CORPUS_JSON_RECORD_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace braid {

// Reused from record to record; not thread-safe. Names are those of top-level fields, or, where
// there is no such field, paths with dots ("meta.source").
class JsonRecord {
 public:
  JsonRecord();
  ~JsonRecord();

  // Parses and checks the whole line, after which LineReader::kPaddingBytes bytes are readable.
  // Empty on success, otherwise why it is rejected: "invalid utf-8", "invalid json", "not an
  // object", "nested too deep" (over 1024 levels), "too long" (over 4 GiB). Integers over 64 bits
  // and numbers over 1.8e308 are no JSON here. Of fields with the same name the first counts.
  std::string_view Parse(std::string_view line);

  // The following refer to the line parsed last and are valid until the next Parse().
  bool Has(std::string_view name) const;
  // A string field; nullopt for other types. May hold invalid UTF-8 when the JSON spells half a
  // surrogate pair.
  std::optional<std::string_view> String(std::string_view name) const;
  // A string, integer or boolean field as text, if not empty.
  std::optional<std::string> Label(std::string_view name) const;
  // Of the top level, in order.
  std::vector<std::string> FieldNames() const;

 private:
  struct Parsed;
  std::unique_ptr<Parsed> parsed_;
};

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_JSON_RECORD_H_
