#include "pipeline/corpus/json_line_records.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest_word.h"
#include "base/status_macros.h"

namespace braid {
namespace {

// Returns the maximum length of a line: that of the text plus 1 MiB for escapes and other fields.
// JSON may encode a character in six bytes (\u0041), but lines are held in memory, and the parser
// accepts less than 4 GiB.
int64_t MaxLineBytes(int64_t max_document_bytes) {
  constexpr int64_t kMaxParsed = int64_t{3} << 30;
  return std::min(max_document_bytes, kMaxParsed) + (int64_t{1} << 20);
}

bool IsBlank(std::string_view line) {
  return line.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

std::string Quoted(const std::vector<std::string>& names) {
  return absl::StrCat("\"", absl::StrJoin(names, "\", \""), "\"");
}

Record RejectAt(int64_t offset, std::string_view reason) {
  return {.kind = RecordKind::kReject, .offset = offset, .reason = std::string(reason)};
}

FieldType TypeOf(const FieldValue& value) {
  constexpr FieldType kTypes[] = {FieldType::kAny, FieldType::kBoolean, FieldType::kNumber,
                                  FieldType::kText};
  return kTypes[value.index()];
}

}  // namespace

absl::Status JsonLineRecords::Open() {
  ASSIGN_OR_RETURN(std::unique_ptr<TextSource> source,
                   TextSource::Open(file_.path, settings_.expansion_limit));
  lines_ =
      std::make_unique<LineReader>(std::move(source), MaxLineBytes(settings_.max_document_bytes));
  return absl::OkStatus();
}

absl::Status JsonLineRecords::SkipTo(int64_t position, const std::string& text_field,
                                     const std::function<absl::Status()>& keep_going) {
  text_field_ = text_field;
  RETURN_IF_ERROR(Open());
  return lines_->SkipTo(position, keep_going);
}

absl::StatusOr<Record> JsonLineRecords::Next(const CorpusSoFar& so_far) {
  if (lines_ == nullptr) {
    if (const absl::Status opened = Open(); !opened.ok()) return DamageAt(0, opened);
  }
  Line line;
  const absl::StatusOr<bool> more = lines_->Next(&line);
  if (!more.ok()) return DamageAt(lines_->offset(), more.status());
  if (!*more) return Record{.kind = RecordKind::kEnd, .is_last = true};
  if (line.offset == 0 && HasWideByteOrderMark(line.text)) {
    return Record{.kind = RecordKind::kReject, .reason = "utf-16 or utf-32", .is_last = true};
  }
  if (line.too_long) return RejectAt(line.offset, "too long");
  if (line.unfinished || IsBlank(line.text))
    return Record{.kind = RecordKind::kBlank, .offset = line.offset};
  return Parse(line, so_far);
}

absl::StatusOr<Record> JsonLineRecords::Parse(const Line& line, const CorpusSoFar& so_far) {
  const std::string_view problem = json_.Parse(line.text);
  if (problem.empty()) return Fields(line.offset, !so_far.fields_shown);
  if (!so_far.has_documents && line.offset == 0 && line.text.starts_with("[")) return IsAnArray();
  return RejectAt(line.offset, problem);
}

// Takes the fields of the parsed object. `first`: it is the first one of the corpus.
absl::StatusOr<Record> JsonLineRecords::Fields(int64_t offset, bool first) {
  FindTextField();
  if (first) RETURN_IF_ERROR(CheckFirst(offset));
  Record record{.kind = RecordKind::kText, .offset = offset, .shows_fields = true};
  record.id = json_.Label(settings_.id_field);
  if (!Filter(&record)) return record;
  const std::optional<std::string_view> text =
      text_field_.empty() ? std::nullopt : json_.String(text_field_);
  if (!text) {
    record.kind = RecordKind::kReject;
    record.reason = "missing text field";
    return record;
  }
  record.text = *text;
  record.domain = json_.Label(settings_.domain_field);
  if (!settings_.embedding_field.empty()) {
    json_.Numbers(settings_.embedding_field, &embedding_);
    record.embedding = embedding_;
  }
  return record;
}

void JsonLineRecords::FindTextField() {
  if (!text_field_.empty()) return;
  const auto found = std::ranges::find_if(settings_.text_fields,
                                          [&](const std::string& name) { return json_.Has(name); });
  if (found != settings_.text_fields.end()) text_field_ = *found;
}

absl::Status JsonLineRecords::CheckFirst(int64_t offset) const {
  if (text_field_.empty()) return MissingTextField(offset);
  const std::string place =
      absl::StrCat("corpus file ", file_.path.string(), ", record at byte ", offset);
  const std::string& embedding = settings_.embedding_field;
  if (!embedding.empty() && !json_.Has(embedding)) {
    return MissingField(place, "ingest.embedding_field", embedding, json_.FieldNames());
  }
  if (settings_.filter == nullptr) return absl::OkStatus();
  for (const FilterField& field : settings_.filter->fields()) {
    if (field.may_be_absent || json_.Has(field.name)) continue;
    return MissingField(place, "ingest.where", field.name, json_.FieldNames());
  }
  return absl::OkStatus();
}

// Returns whether the filter keeps the object; otherwise changes `record` to what stands for it.
bool JsonLineRecords::Filter(Record* record) {
  if (settings_.filter == nullptr) return true;
  const std::vector<FilterField>& fields = settings_.filter->fields();
  values_.resize(fields.size());
  for (size_t i = 0; i < fields.size(); ++i) {
    const FilterField& field = fields[i];
    const std::optional<FieldValue> value = json_.Scalar(field.name);
    if (field.type == FieldType::kAny) {
      // The filter only tests whether the value is null, which arrays and objects are not.
      values_[i] = value.value_or(true);
      continue;
    }
    const FieldType type = value ? TypeOf(*value) : FieldType::kAny;
    if (!value || (type != FieldType::kAny && type != field.type)) {
      record->kind = RecordKind::kReject;
      record->reason = "filter type mismatch";
      record->detail = absl::StrCat(field.name, " is ", value ? NameOf(type) : "an array or object",
                                    ", ingest.where compares it with ", NameOf(field.type));
      return false;
    }
    values_[i] = *value;
  }
  if (settings_.filter->Keeps(values_)) return true;
  record->kind = RecordKind::kFiltered;
  record->num_filtered = 1;
  return false;
}

absl::Status JsonLineRecords::IsAnArray() const {
  return absl::InvalidArgumentError(
      absl::StrCat("corpus file ", file_.path.string(),
                   ": got a JSON array, expected one object per line; convert it with: jq -c '.[]' "
                   "FILE > FILE.jsonl"));
}

absl::Status JsonLineRecords::MissingTextField(int64_t offset) const {
  const std::vector<std::string> seen = json_.FieldNames();
  std::string nearest = NearestWord(settings_.text_fields[0], seen);
  for (const char* name : {"text", "raw_content", "content"}) {
    if (nearest.empty() && json_.Has(name)) nearest = name;
  }
  const std::string expected = settings_.text_field_given
                                   ? absl::StrCat("\"", settings_.text_fields[0], "\"")
                                   : "\"text\", \"raw_content\" or \"content\"";
  const std::string remedy =
      settings_.fixed
          ? absl::StrCat("rename ",
                         nearest.empty() ? "the field that holds the text" : Quoted({nearest}),
                         " to \"text\"")
          : absl::StrCat(
                nearest.empty() ? "" : absl::StrCat("did you mean ", Quoted({nearest}), "? "),
                "set ingest.text_field (--text-field) to the field that holds the text");
  return absl::InvalidArgumentError(
      absl::StrCat("corpus file ", file_.path.string(), ", record at byte ", offset,
                   ": missing text field: got the fields ", Quoted(seen), ", expected ", expected,
                   "; ", remedy));
}

}  // namespace braid
