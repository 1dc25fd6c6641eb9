#include "pipeline/corpus/token_file_records.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "formats/tokenizer.h"

namespace braid {
namespace {

// A document of more tokens than this, and than the limit on its text, is not read: its text is too
// long. A shorter one may have its text between control tokens, which have none.
constexpr int64_t kLeastTokensTooLong = int64_t{64} << 20;

// Reads a part of a file that is opened like other corpus files, so that no link leads out of the
// roots.
absl::StatusOr<std::string> ReadPart(const ClientFile& file, const std::filesystem::path& path,
                                     int64_t offset, int64_t size) {
  absl::StatusOr<std::string> bytes = file.ReadAt(offset, size);
  if (!absl::IsDataLoss(bytes.status())) return bytes;
  return absl::DataLossError(absl::StrCat(path.string(), ": ", bytes.status().message()));
}

}  // namespace

absl::Status TokenFileRecords::Open() {
  std::filesystem::path prefix = file_.path;
  prefix.replace_extension();
  ASSIGN_OR_RETURN(const auto index_file, ClientFile::Open(IndexPath(prefix)));
  ASSIGN_OR_RETURN(file_bytes_, ClientFile::Open(TokensPath(prefix)));
  ASSIGN_OR_RETURN(index_bytes_, ReadPart(*index_file, IndexPath(prefix), 0, index_file->size()));
  ASSIGN_OR_RETURN(index_, SequenceIndex::Parse(index_bytes_, file_bytes_->size(), prefix));
  return absl::OkStatus();
}

// Returns where the tokens of a document, whose sequences follow each other, are in the .bin.
TokenFileRecords::ByteRange TokenFileRecords::RangeOf(int64_t document) const {
  const int64_t first = index_->document_begin(document);
  const int64_t last = index_->document_begin(document + 1) - 1;
  if (last < first) return {};
  const int64_t offset = index_->sequence_offset(first);
  return {offset, index_->sequence_offset(last) - offset +
                      index_->sequence_length(last) * ElementBytes(index_->type())};
}

// Stores the tokens of a document, without those that mark its ends, in tokens_.
absl::Status TokenFileRecords::TakeTokens(int64_t document, const std::string& bytes) {
  const Tokenizer& tokenizer = *settings_.tokenizer;
  tokens_.clear();
  AppendTokens(index_->type(), bytes, &tokens_);
  const auto wrong = std::ranges::find_if(
      tokens_, [&](int32_t token) { return token < 0 || token >= tokenizer.vocab_size(); });
  if (wrong != tokens_.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "corpus file ", file_.path.string(), ", document ", document, ": got the token ", *wrong,
        ", expected 0 to ", tokenizer.vocab_size() - 1,
        " of the given tokenizer; name the tokenizer that made the file with --tokenizer"));
  }
  while (!tokens_.empty() && tokens_.back() == tokenizer.eos_id()) tokens_.pop_back();
  if (!tokens_.empty() && tokens_.front() == tokenizer.bos_id()) tokens_.erase(tokens_.begin());
  return absl::OkStatus();
}

absl::StatusOr<Record> TokenFileRecords::Next(const CorpusSoFar&) {
  if (!index_.has_value()) {
    const absl::Status opened = Open();
    if (absl::IsInvalidArgument(opened)) return opened;
    if (!opened.ok()) return DamageAt(0, opened);
  }
  if (next_ >= index_->num_documents()) return Record{.is_last = true};
  const int64_t document = next_;
  const bool is_last = document + 1 == index_->num_documents();
  if (settings_.filter != nullptr) {
    const std::vector<FieldValue> nulls(settings_.filter->fields().size());
    if (!settings_.filter->Keeps(nulls)) {
      ++next_;
      return Record{.kind = RecordKind::kFiltered, .num_filtered = 1, .is_last = is_last};
    }
  }
  const ByteRange range = RangeOf(document);
  if (range.size / ElementBytes(index_->type()) >
      std::max(settings_.max_document_bytes, kLeastTokensTooLong)) {
    ++next_;
    return Record{
        .kind = RecordKind::kReject, .offset = document, .reason = "too long", .is_last = is_last};
  }
  const absl::StatusOr<std::string> bytes =
      ReadPart(*file_bytes_, file_.path, range.offset, range.size);
  if (!bytes.ok()) return DamageAt(document, bytes.status());
  RETURN_IF_ERROR(TakeTokens(document, *bytes));
  ++next_;
  text_ = settings_.tokenizer->Decode(tokens_);
  return Record{.kind = RecordKind::kText,
                .offset = document,
                .text = text_,
                .tokens = tokens_,
                .is_last = is_last};
}

absl::Status TokenFileRecords::SkipTo(int64_t position, const std::string&,
                                      const std::function<absl::Status()>&) {
  RETURN_IF_ERROR(Open());
  if (position < 0 || position > index_->num_documents()) {
    return absl::OutOfRangeError(
        absl::StrCat("no document ", position, " of ", index_->num_documents()));
  }
  next_ = position;
  return absl::OkStatus();
}

int64_t TokenFileRecords::bytes_read() const {
  if (!index_.has_value() || index_->num_documents() == 0) return 0;
  const double share = static_cast<double>(next_) / static_cast<double>(index_->num_documents());
  return static_cast<int64_t>(share * static_cast<double>(file_.version.bytes));
}

}  // namespace braid
