#include "pipeline/supervised/record_sources.h"

#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "pipeline/corpus/text_source.h"
#include "pipeline/supervised/json_objects.h"
#include "pipeline/supervised/record_format.h"

namespace braid {
namespace {

constexpr int64_t kMaxRecordFileBytes = int64_t{4} << 30;

absl::Status ReadRecordFile(const std::string& path, const std::string& format_name,
                            const std::map<std::string, std::string>& fields, RecordSet* set) {
  ASSIGN_OR_RETURN(const std::optional<std::string> text, ReadText(path, kMaxRecordFileBytes));
  if (!text.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": got more than ", kMaxRecordFileBytes,
                                                   " bytes of text, expected less; split it"));
  }
  std::optional<RecordFormat> format;
  int64_t count = 0;
  const auto take = [&](const nlohmann::json& object, const std::string& place) -> absl::Status {
    if (!format.has_value()) {
      ASSIGN_OR_RETURN(format, FindRecordFormat(format_name, fields, object, place));
    }
    ASSIGN_OR_RETURN(auto converted, ConvertRecord(*format, object, place));
    if (std::holds_alternative<RejectedRecord>(converted)) {
      set->rejected.push_back(std::get<RejectedRecord>(std::move(converted)));
    } else {
      set->records.push_back(std::get<SupervisedRecord>(std::move(converted)));
      set->records.back().source = static_cast<int32_t>(set->sources.size());
    }
    ++count;
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(ForEachJsonObject(*text, path, take));
  if (count == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": got no records, expected JSON objects, one a line or in an array"));
  }
  set->sources.push_back({path, format->name, count});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RecordSet> ReadRecordFiles(std::span<const std::string> paths,
                                          const std::string& format,
                                          const std::map<std::string, std::string>& fields) {
  RecordSet set;
  for (const std::string& path : paths) {
    RETURN_IF_ERROR(ReadRecordFile(path, format, fields, &set));
  }
  return set;
}

}  // namespace braid
