// The kinds of JSON records that people have for fine-tuning, and their conversion to turns.
#ifndef BRAID_PIPELINE_SUPERVISED_RECORD_FORMAT_H_
#define BRAID_PIPELINE_SUPERVISED_RECORD_FORMAT_H_

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/supervised/supervised_record.h"

namespace braid {

// The parts that a record may have.
enum class RecordPart { kPrompt, kInput, kAnswer, kSystem, kHistory, kTurns, kRole, kContent };

// Names of the parts on the command line: prompt, input, answer, system, history, turns, role,
// content.
std::string_view RecordPartName(RecordPart part);

// The fields of one kind of record.
struct RecordFormat {
  std::string name;
  // The field of each part that the kind has. kRole and kContent are fields of the turns.
  std::map<RecordPart, std::string> fields;
  std::vector<RecordPart> required;
  // Whether prompt and answer join as they are.
  bool literal = false;
};

// Returns the kinds: messages, sharegpt, alpaca, prompt, text.
std::vector<RecordFormat> RecordFormats();
std::vector<std::string> RecordFormatNames();
// Returns the names of the parts that the records of a format have; none for an unknown format.
std::vector<std::string> RecordPartNames(const std::string& format_name);

// Returns the kind with this name, or, if `name` is empty, the first one whose required fields
// `record` has. `fields` renames parts: {"answer", "output"}. Errors: INVALID_ARGUMENT for an
// unknown name or part, and when no kind fits; the message lists the fields of the record at
// `place` and those that are expected.
absl::StatusOr<RecordFormat> FindRecordFormat(const std::string& name,
                                              const std::map<std::string, std::string>& fields,
                                              const nlohmann::json& record,
                                              const std::string& place);

// Converts a record. A record whose content cannot be trained on, such as one with an empty answer,
// is rejected. Errors: INVALID_ARGUMENT, which names place and field, got and expected, for a
// record of another kind and for a field of the wrong type or with a misspelled name.
absl::StatusOr<std::variant<SupervisedRecord, RejectedRecord>> ConvertRecord(
    const RecordFormat& format, const nlohmann::json& record, const std::string& place);

}  // namespace braid

#endif  // BRAID_PIPELINE_SUPERVISED_RECORD_FORMAT_H_
