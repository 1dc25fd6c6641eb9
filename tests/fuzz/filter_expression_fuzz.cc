// An expression of ingest.where: whatever parses can be evaluated.
#include <vector>

#include "base/check.h"
#include "pipeline/corpus/record_filter.h"
#include "tests/fuzz/fuzz_target.h"

namespace braid {

std::vector<std::string> FUZZ_SEEDS(filter_expression)() {
  return {"language_score > 0.8 and language = \"en\"",
          "not (a.b is null or `c d` not in ('x', 'it''s')) and e in (1, -2.5e3)",
          "flag and n <> 9223372036854775808 or s >= 'x' and not not flag != false"};
}

}  // namespace braid

int FUZZ_INPUT(filter_expression)(const uint8_t* data, size_t size) {
  using namespace braid;  // NOLINT
  const auto filter = RecordFilter::Parse(AsText(data, size));
  if (!filter.ok()) {
    BRAID_CHECK(absl::IsInvalidArgument(filter.status())) << filter.status();
    return 0;
  }
  const size_t count = filter->fields().size();
  BRAID_CHECK(count > 0) << count;
  std::vector<FieldValue> values(count);
  std::vector<FieldRange> ranges(count);
  filter->Keeps(values);
  BRAID_CHECK(filter->MayKeep(ranges) || !filter->Keeps(values));
  for (size_t i = 0; i < count; ++i) {
    const FieldType type = filter->fields()[i].type;
    if (type == FieldType::kNumber) values[i] = 0.0L;
    if (type == FieldType::kText) values[i] = std::string_view("x");
    if (type == FieldType::kBoolean || type == FieldType::kAny) values[i] = true;
    ranges[i] = {.lowest = values[i], .highest = values[i], .may_be_null = false};
  }
  BRAID_CHECK(filter->MayKeep(ranges) || !filter->Keeps(values));
  return 0;
}
