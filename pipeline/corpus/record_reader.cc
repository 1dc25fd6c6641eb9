#include "pipeline/corpus/record_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file_error.h"
#include "base/nearest_word.h"
#include "base/status_macros.h"
#include "pipeline/corpus/json_line_records.h"
#include "pipeline/corpus/parquet_records.h"
#include "pipeline/corpus/text_file_records.h"
#include "pipeline/corpus/token_file_records.h"

namespace braid {
namespace {

constexpr int64_t kDefaultMaxDocumentBytes = int64_t{64} << 20;
constexpr size_t kMaxShownBytes = 120;  // bytes of field names in a message

absl::Status CheckConfig(const v1::IngestConfig& config) {
  const auto negative = [](const char* field, int64_t value) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ingest.", field, ": got ", value, ", expected at least 1, or nothing for the default"));
  };
  if (config.max_document_bytes() < 0) {
    return negative("max_document_bytes", config.max_document_bytes());
  }
  if (config.split_bytes() < 0) return negative("split_bytes", config.split_bytes());
  if (config.max_expansion_ratio() < 0) {
    return negative("max_expansion_ratio", config.max_expansion_ratio());
  }
  if (config.max_expanded_bytes() < 0) {
    return negative("max_expanded_bytes", config.max_expanded_bytes());
  }
  return absl::OkStatus();
}

std::string NameOr(const std::string& given, const char* fallback) {
  return given.empty() ? fallback : given;
}

}  // namespace

absl::StatusOr<RecordSettings> RecordSettings::From(const v1::IngestConfig& config) {
  RETURN_IF_ERROR(CheckConfig(config));
  RecordSettings settings;
  settings.text_field_given = !config.text_field().empty();
  settings.text_fields = {"text", "raw_content", "content"};
  if (settings.text_field_given) settings.text_fields = {config.text_field()};
  settings.id_field = NameOr(config.id_field(), "id");
  settings.domain_field = NameOr(config.domain_field(), "domain");
  settings.embedding_field = config.embedding_field();
  settings.max_document_bytes =
      config.max_document_bytes() > 0 ? config.max_document_bytes() : kDefaultMaxDocumentBytes;
  ExpansionLimit& limit = settings.expansion_limit;
  if (config.max_expansion_ratio() > 0) limit.max_ratio = config.max_expansion_ratio();
  if (config.max_expanded_bytes() > 0) limit.max_bytes = config.max_expanded_bytes();
  if (config.where().empty()) return settings;
  ASSIGN_OR_RETURN(RecordFilter filter, RecordFilter::Parse(config.where()));
  settings.filter = std::make_shared<const RecordFilter>(std::move(filter));
  return settings;
}

std::unique_ptr<RecordReader> RecordReader::Create(const CorpusFile& file,
                                                   const RecordSettings& settings) {
  if (file.kind == CorpusFileKind::kText) return std::make_unique<TextFileRecords>(file, settings);
  if (file.kind == CorpusFileKind::kParquet) {
    return std::make_unique<ParquetRecords>(file, settings);
  }
  if (file.kind == CorpusFileKind::kTokens) {
    return std::make_unique<TokenFileRecords>(file, settings);
  }
  return std::make_unique<JsonLineRecords>(file, settings);
}

absl::StatusOr<Record> DamageAt(int64_t offset, const absl::Status& error) {
  // An input/output error is DATA_LOSS, too, but the file may be intact.
  if (IsSystemError(error)) return error;
  const bool bomb = IsDecompressionBomb(error);
  if (!bomb && !absl::IsDataLoss(error) && !absl::IsInvalidArgument(error)) return error;
  return Record{.kind = RecordKind::kDamage,
                .offset = offset,
                .reason = bomb ? "decompression bomb" : "damaged",
                .detail = std::string(error.message()),
                .is_last = true};
}

bool HasWideByteOrderMark(std::string_view start) {
  return start.starts_with("\xFF\xFE") || start.starts_with("\xFE\xFF") ||
         start.starts_with(std::string_view("\0\0\xFE\xFF", 4));
}

absl::Status MissingField(const std::string& place, std::string_view setting,
                          const std::string& field, const std::vector<std::string>& names) {
  std::string shown;
  for (const std::string& name : names) {
    const bool fits = shown.size() + name.size() <= kMaxShownBytes;
    absl::StrAppend(&shown, shown.empty() ? "" : ", ", fits ? name : "...");
    if (!fits) break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(place, ": ", std::string(setting), ": got the field \"", field,
                   "\", expected one of ", shown, DidYouMean(field, names)));
}

}  // namespace braid
