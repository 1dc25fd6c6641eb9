#include <simdjson.h>

#include "base/check.h"
#include "pipeline/corpus/json_record.h"
#include "pipeline/corpus/line_reader.h"
#include "tests/fuzz/fuzz_target.h"

namespace braid {

std::vector<std::string> FUZZ_SEEDS(json_record)() {
  return {
      R"({"id": "a", "text": "one \u00e9\ud83d\ude00\n", "meta": {"source": [1, 2.5e3, null]}})",
      R"({"text": "a", "text": 1, "n": -12345678901234567890, "f": true})", R"(["text"])",
      "{\"text\": \"\xE2\x82\xAC\", \"meta.source\": false}"};
}

}  // namespace braid

int FUZZ_INPUT(json_record)(const uint8_t* data, size_t size) {
  static braid::JsonRecord record;
  std::string line(braid::AsText(data, size));
  line.reserve(size + braid::LineReader::kPaddingBytes);
  if (!record.Parse(line).empty()) return 0;
  for (const std::string& name : record.FieldNames()) {
    BRAID_CHECK(record.Has(name)) << name;
    record.String(name);
    if (const auto label = record.Label(name)) {
      BRAID_CHECK(simdjson::validate_utf8(label->data(), label->size())) << name;
    }
  }
  record.String("meta.source");
  record.Label("..");
  return 0;
}
