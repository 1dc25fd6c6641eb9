#include "pipeline/corpus/corpus_reader.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/number_text.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "pipeline/corpus/document_splitter.h"
#include "proto/stated_defaults.h"

namespace braid {
namespace {

// Limits of a step without a document, after which the caller can check for cancellation.
constexpr size_t kMaxRejectsPerStep = 256;
constexpr int64_t kMaxRecordsPerStep = int64_t{1} << 16;
constexpr int64_t kMaxBytesPerStep = int64_t{64} << 20;

bool IsWhiteSpace(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

// Returns the reason for rejecting a text, or "".
std::string_view TextProblem(std::string_view text, int64_t max_document_bytes) {
  if (static_cast<int64_t>(text.size()) > max_document_bytes) return "too long";
  if (IsWhiteSpace(text)) return "empty";
  return IsValidUtf8(text) ? "" : "invalid utf-8";
}

// Returns the reason for rejecting an embedding, or "". `dimension` 0 accepts any.
std::string_view EmbeddingProblem(std::span<const float> vector, int64_t dimension) {
  if (vector.empty()) return "missing embedding";
  if (dimension > 0 && std::ssize(vector) != dimension) return "embedding of another dimension";
  double squares = 0;
  for (const float x : vector) squares += double{x} * double{x};
  if (!std::isfinite(squares)) return "embedding not finite";
  // The inverse of the norm must be a float, too.
  return squares >= double{std::numeric_limits<float>::min()} ? "" : "zero embedding";
}

uint64_t IdHash(std::string_view id) { return XXH3_64bits(id.data(), id.size()); }

bool HasTokens(const CorpusFile& file) { return file.kind == CorpusFileKind::kTokens; }

// Returns the tokenizer of a corpus of indexed datasets; null for a corpus of text.
absl::StatusOr<std::shared_ptr<const Tokenizer>> TokenizerFor(const CorpusFiles& files,
                                                              const v1::IngestConfig& config,
                                                              const std::string& path) {
  const auto tokens = std::ranges::find_if(files.files, HasTokens);
  if (tokens == files.files.end()) return nullptr;
  const auto refuse = [&](const std::string& why) {
    return absl::InvalidArgumentError(
        absl::StrCat("corpus file ", tokens->path.string(), ": ", why));
  };
  const auto text = std::ranges::find_if_not(files.files, HasTokens);
  if (text != files.files.end()) {
    return refuse(absl::StrCat("tokens cannot be mixed with text in one job: got ",
                               text->path.string(), " too; submit it as another job"));
  }
  if (config.split_bytes() > 0) return refuse("ingest.split_bytes cannot split tokens; unset it");
  if (!config.embedding_field().empty()) {
    return refuse("ingest.embedding_field: tokens have no fields; unset it");
  }
  if (path.empty()) {
    return refuse(
        "tokens need the tokenizer that made them, got none; only braid submit reads tokens: "
        "name it there with --tokenizer, for example --tokenizer tokenizer.json");
  }
  ASSIGN_OR_RETURN(const TokenizerFile file, ReadClientTokenizer(path));
  ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, Tokenizer::Parse(file));
  return std::shared_ptr<const Tokenizer>(std::move(tokenizer));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CorpusReader>> CorpusReader::Open(std::span<const std::string> paths,
                                                                 const v1::IngestConfig& config,
                                                                 const KeepListing& keep_listing,
                                                                 const std::string& tokenizer) {
  ASSIGN_OR_RETURN(RecordSettings settings, RecordSettings::From(config));
  ASSIGN_OR_RETURN(CorpusFiles files, FindCorpusFiles(paths, keep_listing));
  ASSIGN_OR_RETURN(settings.tokenizer, TokenizerFor(files, config, tokenizer));
  return std::unique_ptr<CorpusReader>(
      new CorpusReader(std::move(files), config, std::move(settings)));
}

absl::StatusOr<std::unique_ptr<CorpusReader>> CorpusReader::OpenText(
    std::span<const std::string> paths) {
  const v1::IngestConfig config;
  ASSIGN_OR_RETURN(RecordSettings settings, RecordSettings::From(config));
  settings.fixed = true;
  ASSIGN_OR_RETURN(CorpusFiles files, FindCorpusFiles(paths));
  const auto tokens = std::ranges::find_if(files.files, HasTokens);
  if (tokens != files.files.end()) {
    return absl::InvalidArgumentError(absl::StrCat("corpus file ", tokens->path.string(),
                                                   ": got an indexed dataset of tokens, expected "
                                                   "files of text: only corpus jobs read tokens"));
  }
  return std::unique_ptr<CorpusReader>(
      new CorpusReader(std::move(files), config, std::move(settings)));
}

CorpusReader::CorpusReader(CorpusFiles files, const v1::IngestConfig& config,
                           RecordSettings settings)
    : config_(config), settings_(std::move(settings)), files_(std::move(files)) {
  for (const CorpusFile& corpus_file : files_.files) total_bytes_ += corpus_file.version.bytes;
  for (const SkippedEntry& entry : files_.skipped)
    AddReject({entry.path.string(), 0, entry.reason});
}

absl::StatusOr<CorpusStep> CorpusReader::Next(Document* document, std::vector<Reject>* rejects) {
  absl::Status status = StrictFailure();
  const int64_t pause_bytes = bytes_read() + kMaxBytesPerStep;
  const int64_t pause_records = num_records() + kMaxRecordsPerStep;
  // Few bytes of a compressed file may be many blank lines.
  int64_t passed = 0;
  while (status.ok() && ready_.empty() && next_file_ < files_.files.size() &&
         rejects_.size() < kMaxRejectsPerStep && bytes_read() < pause_bytes &&
         num_records() < pause_records && passed < kMaxBytesPerStep) {
    const int64_t before = position_in_file();
    status = Advance();
    passed += std::max<int64_t>(position_in_file() - before, 0);
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
  if (!ready_.empty() || !rejects_.empty() || may_be_inside_record_) return std::nullopt;
  return CorpusPosition{.file = static_cast<int64_t>(next_file_),
                        .offset = position_in_file(),
                        .inside_file = records_ != nullptr,
                        .text_field = records_ != nullptr ? records_->text_field() : "",
                        .seen_an_object = seen_an_object_,
                        .num_accepted = num_accepted_,
                        .num_filtered = num_filtered_,
                        .num_field_records = num_field_records_,
                        .embedding_dimension = embedding_dimension_,
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
    records_ = RecordReader::Create(file(), settings_);
    const absl::Status status = records_->SkipTo(position.offset, position.text_field, keep_going);
    if (absl::IsDataLoss(status) || absl::IsInvalidArgument(status) || absl::IsNotFound(status)) {
      return absl::OutOfRangeError(
          absl::StrCat("a file that was read before cannot be read now: ", status.message()));
    }
    RETURN_IF_ERROR(status);
  }
  seen_an_object_ = position.seen_an_object;
  embedding_dimension_ = position.embedding_dimension;
  id_hashes_.insert(id_hashes.begin(), id_hashes.end());
  num_accepted_ = position.num_accepted;
  num_filtered_ = position.num_filtered;
  num_field_records_ = position.num_field_records;
  reject_counts_ = position.rejects;
  num_rejected_ = 0;
  for (const auto& [reason, count] : reject_counts_) num_rejected_ += count;
  rejects_.clear();
  return absl::OkStatus();
}

int64_t CorpusReader::bytes_read() const {
  return bytes_of_finished_files_ + (records_ != nullptr ? records_->bytes_read() : 0);
}

absl::Status CorpusReader::CloseFile() {
  RETURN_IF_ERROR(CheckUnchanged(file().path, file().version));
  records_.reset();
  bytes_of_finished_files_ += file().version.bytes;
  ++next_file_;
  return absl::OkStatus();
}

// Makes one step in the current file.
absl::Status CorpusReader::Advance() {
  if (records_ == nullptr) records_ = RecordReader::Create(file(), settings_);
  const absl::StatusOr<Record> record =
      records_->Next({.fields_shown = seen_an_object_, .has_documents = num_accepted_ > 0});
  // A file that was truncated while it was read appears damaged too; the change is the error to
  // report.
  if (!record.ok() || record->kind == RecordKind::kDamage) {
    RETURN_IF_ERROR(CheckUnchanged(file().path, file().version));
  }
  RETURN_IF_ERROR(record.status());
  seen_an_object_ = seen_an_object_ || record->shows_fields;
  num_filtered_ += record->num_filtered;
  may_be_inside_record_ = record->kind == RecordKind::kBlank;
  if (record->kind == RecordKind::kText) AddDocument(MakeDocument(*record));
  if (record->kind == RecordKind::kReject || record->kind == RecordKind::kDamage) {
    AddRejectedRecord(*record);
  }
  return record->is_last ? CloseFile() : absl::OkStatus();
}

Document CorpusReader::MakeDocument(const Record& record) const {
  Document document;
  document.id = record.id.value_or(absl::StrCat(file().name, ":", record.offset));
  document.text = std::string(record.text);
  document.domain = DomainName(record.domain.value_or(file().domain));
  document.has_domain_field = record.domain.has_value();
  document.file = file().path.string();
  document.offset = record.offset;
  document.embedding.assign(record.embedding.begin(), record.embedding.end());
  document.tokens.assign(record.tokens.begin(), record.tokens.end());
  return document;
}

// Returns the reason for rejecting a document, or "".
std::string_view CorpusReader::Problem(const Document& document) const {
  const std::string_view problem = TextProblem(document.text, settings_.max_document_bytes);
  if (!problem.empty() || settings_.embedding_field.empty()) return problem;
  return EmbeddingProblem(document.embedding, embedding_dimension_);
}

// Enters the ids of a document and of its parts, all or none; returns false if one was seen before.
bool CorpusReader::EnterIds(const Document& document, std::span<const Document> parts) {
  std::vector<uint64_t> hashes = {IdHash(document.id)};
  for (const Document& part : parts) hashes.push_back(IdHash(part.id));
  if (std::ranges::any_of(hashes, [&](uint64_t hash) { return id_hashes_.contains(hash); })) {
    return false;
  }
  id_hashes_.insert(hashes.begin(), hashes.end());
  new_id_hashes_.insert(new_id_hashes_.end(), hashes.begin(), hashes.end());
  return true;
}

void CorpusReader::AddDocument(Document document) {
  const std::string_view problem = Problem(document);
  if (!problem.empty()) return RejectDocument(document, problem);
  const auto size = static_cast<int64_t>(document.text.size());
  const bool split = config_.split_bytes() > 0 && size > config_.split_bytes();
  std::vector<Document> parts = split ? Parts(document) : std::vector<Document>();
  if (!EnterIds(document, parts)) return RejectDocument(document, "duplicate id");
  ++num_accepted_;
  if (document.has_domain_field) ++num_field_records_;
  embedding_dimension_ = std::ssize(document.embedding);
  if (split) {
    std::ranges::move(parts, std::back_inserter(ready_));
  } else {
    ready_.push_back(std::move(document));
  }
}

std::vector<Document> CorpusReader::Parts(const Document& document) const {
  std::vector<Document> parts;
  for (const std::string_view piece : SplitDocument(document.text, config_.split_bytes())) {
    if (IsWhiteSpace(piece)) continue;
    parts.push_back({.id = absl::StrCat(document.id, "#", parts.size()),
                     .text = std::string(piece),
                     .domain = document.domain,
                     .file = document.file,
                     .offset = document.offset,
                     .has_domain_field = document.has_domain_field,
                     .embedding = document.embedding});
  }
  return parts;
}

void CorpusReader::AddRejectedRecord(const Record& record) {
  AddReject({.file = file().path.string(),
             .offset = record.offset,
             .reason = record.reason,
             .detail = record.detail,
             .id = record.id.value_or("")});
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

// Returns where in its file a rejected record is; "" for an entry of a directory that is not read.
std::string CorpusReader::PlaceOf(const Reject& reject) const {
  const auto found = std::ranges::find_if(files_.files, [&](const CorpusFile& corpus_file) {
    return corpus_file.path.string() == reject.file;
  });
  if (found == files_.files.end()) return "";
  const char* unit = ", record at byte ";
  if (found->kind == CorpusFileKind::kParquet) unit = ", record at row ";
  if (found->kind == CorpusFileKind::kTokens) unit = ", document ";
  return absl::StrCat(unit, reject.offset);
}

absl::Status CorpusReader::StrictFailure() const {
  if (!config_.strict() || rejects_.empty()) return absl::OkStatus();
  const Reject& first = rejects_.front();
  return absl::InvalidArgumentError(
      absl::StrCat("corpus file ", first.file, PlaceOf(first), ": ", first.reason,
                   first.detail.empty() ? "" : absl::StrCat(" (", first.detail, ")"),
                   "; expected no rejected record in strict mode; fix the record, or unset "
                   "ingest.strict to write such records to rejects.jsonl"));
}

std::vector<std::string> CorpusReader::Notes() const {
  std::vector<std::string> notes;
  if (const auto num_files = std::ranges::count_if(files_.files, IsStructuredText); num_files > 0) {
    const auto first = std::ranges::find_if(files_.files, IsStructuredText);
    notes.push_back(absl::StrCat(
        Counted(num_files, "file"), " such as ", ReplaceInvalidUtf8(first->path.string()),
        num_files == 1 ? " is read as one document" : " are read as one document each",
        "; name .json files as paths to read their records, and convert others to JSON lines"));
  }
  v1::IngestConfig defaults;
  FillStatedDefaults(&defaults);
  const std::string& field = config_.domain_field();
  if (num_field_records_ == 0 && !field.empty() && field != defaults.domain_field()) {
    notes.push_back(absl::StrCat("no record has the field \"", field,
                                 "\"; domains come from the names of files and directories"));
  }
  return notes;
}

absl::Status CorpusReader::CheckNotEmpty() const {
  if (num_accepted_ > 0) return absl::OkStatus();
  const auto count = [](std::string* out, const auto& entry) {
    absl::StrAppend(out, entry.second, " ", entry.first);
  };
  const std::string rejected = absl::StrJoin(reject_counts_, ", ", count);
  const std::string filtered =
      num_filtered_ == 0 ? "" : absl::StrCat("; ", num_filtered_, " not kept by ingest.where");
  return absl::InvalidArgumentError(absl::StrCat(
      "empty corpus: got 0 documents from ", Counted(std::ssize(files_.files), "file"),
      ", starting with ", files_.files.front().path.string(), " (",
      Counted(num_rejected_, "record"), " rejected", rejected.empty() ? "" : ": ", rejected,
      filtered, "), expected at least 1; ",
      num_rejected_ > 0 && !settings_.fixed ? "set ingest.strict (--strict) to see the first reject"
                                            : "docs/corpus.md describes the accepted files"));
}

}  // namespace braid
