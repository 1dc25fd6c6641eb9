// Supervised records: JSON text of any kind, in any format.
#include "base/check.h"
#include "pipeline/supervised/json_objects.h"
#include "pipeline/supervised/record_format.h"
#include "tests/fuzz/fuzz_target.h"

namespace braid {

std::vector<std::string> FUZZ_SEEDS(supervised_records)() {
  return {
      R"([{"instruction": "a", "input": "b", "output": "c", "history": [["d", "e"]]}, {"instruction": "f", "output": ""}])",
      "{\"prompt\": \"a\", \"completion\": \"b\"}\n\n{\"prompt\": \"\", \"completion\": \" \"}",
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})",
      R"({"conversations": [{"from": "human", "value": "\"]}"}, {"from": "gpt", "value": "b"}]})",
      R"({"text": "a"})"};
}

}  // namespace braid

int FUZZ_INPUT(supervised_records)(const uint8_t* data, size_t size) {
  using namespace braid;  // NOLINT
  std::optional<RecordFormat> format;
  const auto take = [&](const nlohmann::json& object, const std::string& place) -> absl::Status {
    if (!format.has_value()) {
      auto found = FindRecordFormat("", {}, object, place);
      if (!found.ok()) return found.status();
      format = *std::move(found);
    }
    const auto converted = ConvertRecord(*format, object, place);
    if (!converted.ok()) return converted.status();
    if (const auto* record = std::get_if<SupervisedRecord>(&*converted)) {
      BRAID_CHECK(!record->turns.empty());
      BRAID_CHECK(record->turns.back().role == ChatRole::kAssistant);
      for (const ChatTemplate& chat : ChatTemplates()) {
        BRAID_CHECK(!RenderChat(chat, record->turns, record->literal).empty());
      }
    }
    return absl::OkStatus();
  };
  ForEachJsonObject(AsText(data, size), "fuzz", take).IgnoreError();
  return 0;
}
