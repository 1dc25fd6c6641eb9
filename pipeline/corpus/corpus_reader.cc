#include "pipeline/corpus/corpus_reader.h"

#include <xxhash.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest_word.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "pipeline/corpus/document_splitter.h"
#include "pipeline/corpus/text_source.h"

namespace braid {
namespace {

constexpr int64_t kDefaultMaxDocumentBytes = int64_t{64} << 20;
constexpr const char* kTextFields[] = {"text", "raw_content", "content"};
constexpr size_t kBinaryProbeBytes = 8192;
// Limits of a step without a document, after which the caller can check for cancellation.
constexpr size_t kMaxRejectsPerStep = 256;
constexpr int64_t kMaxBytesPerStep = int64_t{64} << 20;

// Returns the maximum length of a line: that of the text plus 1 MiB for escapes and other fields.
// JSON may encode a character in six bytes (\u0041), but lines are held in memory, and the parser
// accepts less than 4 GiB.
int64_t MaxLineBytes(int64_t max_document_bytes) {
  constexpr int64_t kMaxParsed = int64_t{3} << 30;
  return std::min(max_document_bytes, kMaxParsed) + (int64_t{1} << 20);
}

ExpansionLimit ExpansionLimitOf(const v1::IngestConfig& config) {
  ExpansionLimit limit;
  if (config.max_expansion_ratio() > 0) limit.max_ratio = config.max_expansion_ratio();
  if (config.max_expanded_bytes() > 0) limit.max_bytes = config.max_expanded_bytes();
  return limit;
}

// Returns whether a text starts with a byte order mark of UTF-16 or UTF-32.
bool HasWideByteOrderMark(std::string_view start) {
  return start.starts_with("\xFF\xFE") || start.starts_with("\xFE\xFF") ||
         start.starts_with(std::string_view("\0\0\xFE\xFF", 4));
}

bool IsWhiteSpace(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

std::string Quoted(const std::vector<std::string>& names) {
  return absl::StrCat("\"", absl::StrJoin(names, "\", \""), "\"");
}

std::string FieldOr(const std::string& given, const char* fallback) {
  return given.empty() ? fallback : given;
}

// Returns the reason for rejecting a text, or "".
std::string_view TextProblem(std::string_view text, int64_t max_document_bytes) {
  if (static_cast<int64_t>(text.size()) > max_document_bytes) return "too long";
  if (IsWhiteSpace(text)) return "empty";
  return IsValidUtf8(text) ? "" : "invalid utf-8";
}

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

}  // namespace

absl::StatusOr<std::unique_ptr<CorpusReader>> CorpusReader::Open(std::span<const std::string> paths,
                                                                 const v1::IngestConfig& config,
                                                                 const KeepListing& keep_listing) {
  RETURN_IF_ERROR(CheckConfig(config));
  ASSIGN_OR_RETURN(CorpusFiles files, FindCorpusFiles(paths, keep_listing));
  return std::unique_ptr<CorpusReader>(new CorpusReader(std::move(files), config));
}

CorpusReader::CorpusReader(CorpusFiles files, const v1::IngestConfig& config)
    : config_(config),
      max_document_bytes_(config.max_document_bytes() > 0 ? config.max_document_bytes()
                                                          : kDefaultMaxDocumentBytes),
      expansion_limit_(ExpansionLimitOf(config)),
      files_(std::move(files)) {
  for (const CorpusFile& corpus_file : files_.files) total_bytes_ += corpus_file.version.bytes;
  for (const SkippedEntry& entry : files_.skipped)
    AddReject({entry.path.string(), 0, entry.reason});
}

absl::StatusOr<CorpusStep> CorpusReader::Next(Document* document, std::vector<Reject>* rejects) {
  absl::Status status = StrictFailure();
  const int64_t pause = bytes_read() + kMaxBytesPerStep;
  while (status.ok() && ready_.empty() && next_file_ < files_.files.size() &&
         rejects_.size() < kMaxRejectsPerStep && bytes_read() < pause) {
    status = Advance();
    status.Update(StrictFailure());
  }
  std::ranges::move(rejects_, std::back_inserter(*rejects));
  rejects_.clear();
  RETURN_IF_ERROR(status);
  if (ready_.empty()) {
    if (next_file_ < files_.files.size()) return CorpusStep::kNoneYet;
    RETURN_IF_ERROR(CheckNotEmpty());
    return CorpusStep::kEnd;
  }
  *document = std::move(ready_.front());
  ready_.pop_front();
  return CorpusStep::kDocument;
}

std::optional<CorpusPosition> CorpusReader::position() const {
  if (!ready_.empty() || !rejects_.empty()) return std::nullopt;
  return CorpusPosition{.file = static_cast<int64_t>(next_file_),
                        .offset = lines_ != nullptr  ? lines_->offset()
                                  : rows_ != nullptr ? rows_->row()
                                                     : 0,
                        .inside_file = lines_ != nullptr || rows_ != nullptr,
                        .text_field = text_field_,
                        .seen_an_object = seen_an_object_,
                        .num_accepted = num_accepted_,
                        .rejects = reject_counts_};
}

absl::Status CorpusReader::Resume(const CorpusPosition& position,
                                  std::span<const uint64_t> id_hashes,
                                  const std::function<absl::Status()>& keep_going) {
  const auto num_files = static_cast<int64_t>(files_.files.size());
  if (position.file < 0 || position.file > num_files || position.offset < 0) {
    return absl::OutOfRangeError(absl::StrCat("no file ", position.file, " of ", num_files));
  }
  while (static_cast<int64_t>(next_file_) < position.file) RETURN_IF_ERROR(CloseFile());
  if (position.inside_file) {
    if (position.file == num_files) return absl::OutOfRangeError("beyond the last file");
    RETURN_IF_ERROR(file().kind == CorpusFileKind::kParquet ? OpenParquetFile() : OpenFile());
    if (lines_ == nullptr && rows_ == nullptr) {
      return absl::OutOfRangeError("a file that was opened before cannot be opened now");
    }
    if (rows_ != nullptr && position.offset > rows_->num_rows()) {
      return absl::OutOfRangeError(absl::StrCat("no row ", position.offset));
    }
    RETURN_IF_ERROR(lines_ != nullptr ? lines_->SkipTo(position.offset, keep_going)
                                      : rows_->Seek(position.offset));
  }
  text_field_ = position.text_field;
  seen_an_object_ = position.seen_an_object;
  id_hashes_.insert(id_hashes.begin(), id_hashes.end());
  num_accepted_ = position.num_accepted;
  reject_counts_ = position.rejects;
  num_rejected_ = 0;
  for (const auto& [reason, count] : reject_counts_) num_rejected_ += count;
  rejects_.clear();
  return absl::OkStatus();
}

int64_t CorpusReader::bytes_read() const {
  return bytes_of_finished_files_ + (lines_ != nullptr  ? lines_->bytes_read()
                                     : rows_ != nullptr ? rows_->bytes_read()
                                                        : 0);
}

absl::Status CorpusReader::Advance() {
  if (file().kind == CorpusFileKind::kText) return ReadTextFile();
  if (file().kind == CorpusFileKind::kParquet) {
    return rows_ == nullptr ? OpenParquetFile() : ReadParquetRow();
  }
  return lines_ == nullptr ? OpenFile() : ReadRecord();
}

absl::Status CorpusReader::OpenFile() {
  absl::StatusOr<std::unique_ptr<TextSource>> source =
      TextSource::Open(file().path, expansion_limit_);
  if (!source.ok()) return RejectRest(0, source.status());
  lines_ = std::make_unique<LineReader>(*std::move(source), MaxLineBytes(max_document_bytes_));
  text_field_.clear();
  return absl::OkStatus();
}

absl::Status CorpusReader::CloseFile() {
  RETURN_IF_ERROR(CheckUnchanged(file().path, file().version));
  lines_.reset();
  rows_.reset();
  bytes_of_finished_files_ += file().version.bytes;
  ++next_file_;
  return absl::OkStatus();
}

// Handles an error in reading a file. If the file itself is damaged, its rest is rejected; any
// other error is returned and stops the job, which can be resumed when the cause is fixed.
absl::Status CorpusReader::RejectRest(int64_t offset, const absl::Status& damage) {
  // A file that was truncated while it was read appears damaged too; the change is the error to
  // report.
  RETURN_IF_ERROR(CheckUnchanged(file().path, file().version));
  const bool bomb = IsDecompressionBomb(damage);
  const bool huge_page = rows_ != nullptr && absl::IsResourceExhausted(damage);
  if (!bomb && !huge_page && !absl::IsDataLoss(damage) && !absl::IsInvalidArgument(damage))
    return damage;
  RejectAt(offset, bomb || huge_page ? "decompression bomb" : "damaged",
           std::string(damage.message()));
  return CloseFile();
}

absl::Status CorpusReader::ReadTextFile() {
  const absl::StatusOr<std::optional<std::string>> text =
      ReadText(file().path, max_document_bytes_, expansion_limit_);
  if (!text.ok()) return RejectRest(0, text.status());
  if (!text->has_value()) {
    RejectAt(0, "too long");
  } else if (HasWideByteOrderMark(**text)) {
    RejectAt(0, "utf-16 or utf-32");
  } else if ((*text)->substr(0, kBinaryProbeBytes).find('\0') != std::string::npos) {
    RejectAt(0, "binary");
  } else {
    AddDocument({.id = file().name,
                 .text = **text,
                 .domain = file().domain,
                 .file = file().path.string(),
                 .offset = 0});
  }
  return CloseFile();
}

absl::Status CorpusReader::ReadRecord() {
  Line line;
  const absl::StatusOr<bool> more = lines_->Next(&line);
  if (!more.ok()) return RejectRest(lines_->offset(), more.status());
  if (!*more) return CloseFile();
  if (line.offset == 0 && HasWideByteOrderMark(line.text)) {
    RejectAt(0, "utf-16 or utf-32");
    return CloseFile();
  }
  if (line.too_long) {
    RejectAt(line.offset, "too long");
  } else if (!IsWhiteSpace(line.text)) {
    return AddRecord(line);
  }
  return absl::OkStatus();
}

absl::Status CorpusReader::AddRecord(const Line& line) {
  if (const std::string_view problem = record_.Parse(line.text); !problem.empty()) {
    if (num_accepted_ == 0 && line.offset == 0 && line.text.starts_with("[")) return IsAnArray();
    RejectAt(line.offset, problem);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const bool found, FindTextField(line.offset));
  const std::optional<std::string_view> text = found ? record_.String(text_field_) : std::nullopt;
  if (!text) {
    AddReject({.file = file().path.string(),
               .offset = line.offset,
               .reason = "missing text field",
               .id = record_.Label(IdField()).value_or("")});
  } else {
    AddDocument(
        MakeDocument(*text, line.offset, record_.Label(IdField()), record_.Label(DomainField())));
  }
  return absl::OkStatus();
}

// Determines the text field of the current file from its first record that has one; returns false
// if there is none yet. A missing field is an error in the first record of the corpus only, where
// the setting is probably wrong; later, rejecting the record is better than failing a long job.
absl::StatusOr<bool> CorpusReader::FindTextField(int64_t offset) {
  const bool first = !std::exchange(seen_an_object_, true);
  if (!text_field_.empty()) return true;
  if (!config_.text_field().empty()) {
    if (record_.Has(config_.text_field())) text_field_ = config_.text_field();
  } else {
    const auto* field =
        std::ranges::find_if(kTextFields, [&](const char* name) { return record_.Has(name); });
    if (field != std::end(kTextFields)) text_field_ = *field;
  }
  if (text_field_.empty() && first) return MissingTextField(offset);
  return !text_field_.empty();
}

// A file without the text column is an error if it is the first of the corpus, where the setting is
// probably wrong, as with the first record of JSON lines.
absl::Status CorpusReader::OpenParquetFile() {
  const bool first = !std::exchange(seen_an_object_, true);
  std::vector<std::string> text(std::begin(kTextFields), std::end(kTextFields));
  if (!config_.text_field().empty()) text = {config_.text_field()};
  absl::StatusOr<std::unique_ptr<ParquetRecords>> rows =
      ParquetRecords::Open(file().path, text, IdField(), DomainField());
  if (rows.ok()) {
    rows_ = *std::move(rows);
    text_field_ = rows_->text_column();
    return absl::OkStatus();
  }
  if (absl::IsUnimplemented(rows.status())) {
    return absl::InvalidArgumentError(rows.status().message());
  }
  if (!absl::IsNotFound(rows.status())) return RejectRest(0, rows.status());
  if (first) {
    return absl::InvalidArgumentError(absl::StrCat(
        rows.status().message(), "; set ingest.text_field to the column that holds the text"));
  }
  RejectAt(0, "missing text field", std::string(rows.status().message()));
  return CloseFile();
}

absl::Status CorpusReader::ReadParquetRow() {
  ParquetRecord record;
  const int64_t row = rows_->row();
  const absl::StatusOr<bool> more = rows_->Next(&record);
  if (absl::IsUnimplemented(more.status())) {
    return absl::InvalidArgumentError(more.status().message());
  }
  if (!more.ok()) return RejectRest(row, more.status());
  if (!*more) return CloseFile();
  if (!record.text.has_value()) {
    RejectAt(row, "missing text field");
  } else {
    AddDocument(MakeDocument(*record.text, row, record.id, record.domain));
  }
  return absl::OkStatus();
}

absl::Status CorpusReader::IsAnArray() const {
  return absl::InvalidArgumentError(
      absl::StrCat("corpus file ", file().path.string(),
                   ": got a JSON array, expected one object per line; convert it with: jq -c '.[]' "
                   "FILE > FILE.jsonl"));
}

absl::Status CorpusReader::MissingTextField(int64_t offset) const {
  const std::vector<std::string> seen = record_.FieldNames();
  const bool given = !config_.text_field().empty();
  std::string nearest = NearestWord(given ? config_.text_field() : kTextFields[0], seen);
  for (const char* name : kTextFields) {
    if (nearest.empty() && record_.Has(name)) nearest = name;
  }
  const std::string expected = given ? absl::StrCat("\"", config_.text_field(), "\"")
                                     : "\"text\", \"raw_content\" or \"content\"";
  return absl::InvalidArgumentError(
      absl::StrCat("corpus file ", file().path.string(), ", record at byte ", offset,
                   ": missing text field: got the fields ", Quoted(seen), ", expected ", expected,
                   "; ", nearest.empty() ? "" : absl::StrCat("did you mean \"", nearest, "\"? "),
                   "set ingest.text_field to the field that holds the text"));
}

std::string CorpusReader::IdField() const { return FieldOr(config_.id_field(), "id"); }

std::string CorpusReader::DomainField() const { return FieldOr(config_.domain_field(), "domain"); }

Document CorpusReader::MakeDocument(std::string_view text, int64_t offset,
                                    const std::optional<std::string>& id,
                                    const std::optional<std::string>& domain) const {
  Document document;
  document.id = id.value_or(absl::StrCat(file().name, ":", offset));
  document.text = std::string(text);
  document.domain = DomainName(domain.value_or(file().domain));
  document.has_domain_field = domain.has_value();
  document.file = file().path.string();
  document.offset = offset;
  return document;
}

void CorpusReader::AddDocument(Document document) {
  const std::string_view problem = TextProblem(document.text, max_document_bytes_);
  if (!problem.empty()) return RejectDocument(document, problem);
  const uint64_t id_hash = XXH3_64bits(document.id.data(), document.id.size());
  if (!id_hashes_.insert(id_hash).second) return RejectDocument(document, "duplicate id");
  new_id_hashes_.push_back(id_hash);
  ++num_accepted_;
  const auto size = static_cast<int64_t>(document.text.size());
  if (config_.split_bytes() > 0 && size > config_.split_bytes()) {
    AddPieces(document);
  } else {
    ready_.push_back(std::move(document));
  }
}

void CorpusReader::AddPieces(const Document& document) {
  int64_t number = 0;
  for (const std::string_view piece : SplitDocument(document.text, config_.split_bytes())) {
    if (IsWhiteSpace(piece)) continue;
    Document part = {.id = absl::StrCat(document.id, "#", number++),
                     .text = std::string(piece),
                     .domain = document.domain,
                     .file = document.file,
                     .offset = document.offset,
                     .has_domain_field = document.has_domain_field};
    ready_.push_back(std::move(part));
  }
}

void CorpusReader::RejectAt(int64_t offset, std::string_view reason, std::string_view detail) {
  AddReject({file().path.string(), offset, std::string(reason), std::string(detail)});
}

void CorpusReader::RejectDocument(const Document& document, std::string_view reason) {
  const bool named = document.id != absl::StrCat(file().name, ":", document.offset);
  AddReject({.file = file().path.string(),
             .offset = document.offset,
             .reason = std::string(reason),
             .id = named ? document.id : ""});
}

void CorpusReader::AddReject(Reject reject) {
  ++num_rejected_;
  ++reject_counts_[reject.reason];
  rejects_.push_back(std::move(reject));
}

absl::Status CorpusReader::StrictFailure() const {
  if (!config_.strict() || rejects_.empty()) return absl::OkStatus();
  const Reject& first = rejects_.front();
  return absl::InvalidArgumentError(absl::StrCat(
      "corpus file ", first.file, ", record at ",
      absl::AsciiStrToLower(first.file).ends_with(".parquet") ? "row " : "byte ", first.offset,
      ": ", first.reason, first.detail.empty() ? "" : absl::StrCat(" (", first.detail, ")"),
      "; expected no rejected record in strict mode; fix the record, or unset "
      "ingest.strict to write "
      "such records to rejects.jsonl"));
}

absl::Status CorpusReader::CheckNotEmpty() const {
  if (num_accepted_ > 0) return absl::OkStatus();
  const auto count = [](std::string* out, const auto& entry) {
    absl::StrAppend(out, entry.second, " ", entry.first);
  };
  const std::string rejected = absl::StrJoin(reject_counts_, ", ", count);
  return absl::InvalidArgumentError(
      absl::StrCat("empty corpus: got 0 documents from ", files_.files.size(),
                   " files starting with ", files_.files.front().path.string(), " (", num_records(),
                   " records rejected", rejected.empty() ? "" : ": ", rejected,
                   "), expected at least 1; docs/corpus.md describes the accepted files"));
}

}  // namespace braid
