#include "pipeline/supervised/record_sources.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file_error.h"
#include "base/status_macros.h"
#include "pipeline/corpus/text_source.h"
#include "pipeline/supervised/json_objects.h"
#include "pipeline/supervised/record_format.h"

namespace braid {
namespace {

constexpr int64_t kMaxRecordFileBytes = int64_t{4} << 30;

// As ReadText. Compressed data that are damaged or cut short are bad input like text that is not
// JSON: INVALID_ARGUMENT, as is a decompression bomb.
absl::StatusOr<std::optional<std::string>> ReadRecordText(const std::string& path) {
  absl::StatusOr<std::optional<std::string>> text = ReadText(path, kMaxRecordFileBytes);
  const absl::Status error = text.status();
  const bool damaged = absl::IsDataLoss(error) && !IsSystemError(error);
  if (!damaged && !IsDecompressionBomb(error)) return text;
  return absl::InvalidArgumentError(error.message());
}

absl::Status ReadRecordFile(const std::string& path, const std::string& format_name,
                            const std::map<std::string, std::string>& fields, RecordSet* set) {
  ASSIGN_OR_RETURN(const std::optional<std::string> text, ReadRecordText(path));
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

// Copies of a record would be one example to those who ask where it came from.
absl::Status CheckNamedOnce(std::span<const std::string> paths) {
  std::map<std::filesystem::path, std::string> known;
  for (const std::string& path : paths) {
    std::error_code error;
    std::filesystem::path real = std::filesystem::weakly_canonical(path, error);
    if (error) real = path;
    const auto [first, added] = known.emplace(std::move(real), path);
    if (added) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": got the file twice, as ", first->second,
                     " too, expected each file once; a weight reads it more often, as in ",
                     first->second, "=2"));
  }
  return absl::OkStatus();
}

// Each part that is renamed must be one of a format that was read.
absl::Status CheckParts(const std::map<std::string, std::string>& fields,
                        std::span<const RecordSource> sources) {
  for (const auto& [part, field] : fields) {
    std::map<std::string, std::string> expected;  // parts by format
    bool known = false;
    for (const RecordSource& source : sources) {
      const std::vector<std::string> parts = RecordPartNames(source.format);
      known |= std::ranges::find(parts, part) != parts.end();
      expected[source.format] = absl::StrJoin(parts, ", ");
    }
    if (known) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--field: got ", part, "=", field, ", expected a part of the records: ",
                     absl::StrJoin(expected, "; ", absl::PairFormatter(" has "))));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RecordSet> ReadRecordFiles(std::span<const std::string> paths,
                                          const std::string& format,
                                          const std::map<std::string, std::string>& fields) {
  RecordSet set;
  RETURN_IF_ERROR(CheckNamedOnce(paths));
  for (const std::string& path : paths) {
    RETURN_IF_ERROR(ReadRecordFile(path, format, fields, &set));
  }
  RETURN_IF_ERROR(CheckParts(fields, set.sources));
  return set;
}

void AppendRecords(RecordSet more, RecordSet* set) {
  const auto num_sources = static_cast<int32_t>(set->sources.size());
  for (SupervisedRecord& record : more.records) record.source += num_sources;
  std::ranges::move(more.records, std::back_inserter(set->records));
  std::ranges::move(more.rejected, std::back_inserter(set->rejected));
  std::ranges::move(more.sources, std::back_inserter(set->sources));
  std::ranges::move(more.evaluated, std::back_inserter(set->evaluated));
}

}  // namespace braid
