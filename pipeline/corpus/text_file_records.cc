#include "pipeline/corpus/text_file_records.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace braid {
namespace {

constexpr size_t kBinaryProbeBytes = 8192;

Record RejectFor(const char* reason) {
  return {.kind = RecordKind::kReject, .reason = reason, .is_last = true};
}

}  // namespace

absl::StatusOr<Record> TextFileRecords::Next(const CorpusSoFar&) {
  if (settings_.filter != nullptr) {
    const std::vector<FieldValue> nulls(settings_.filter->fields().size());
    if (!settings_.filter->Keeps(nulls)) {
      return Record{.kind = RecordKind::kFiltered, .num_filtered = 1, .is_last = true};
    }
  }
  absl::StatusOr<std::optional<std::string>> text =
      ReadText(file_.path, settings_.max_document_bytes, settings_.expansion_limit);
  if (!text.ok()) return DamageAt(0, text.status());
  if (!text->has_value()) return RejectFor("too long");
  if (HasWideByteOrderMark(**text)) return RejectFor("utf-16 or utf-32");
  if ((*text)->substr(0, kBinaryProbeBytes).find('\0') != std::string::npos) {
    return RejectFor("binary");
  }
  text_ = **std::move(text);
  return Record{.kind = RecordKind::kText, .text = text_, .id = file_.name, .is_last = true};
}

absl::Status TextFileRecords::SkipTo(int64_t position, const std::string&,
                                     const std::function<absl::Status()>&) {
  if (position == 0) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat("no record at byte ", position, " of a text file"));
}

}  // namespace braid
