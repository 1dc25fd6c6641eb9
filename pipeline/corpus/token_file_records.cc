#include "pipeline/corpus/token_file_records.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/mapped_file.h"
#include "base/path_roots.h"
#include "base/status_macros.h"
#include "formats/tokenizer.h"

namespace braid {
namespace {

// Maps a file that is opened like other corpus files, so that no link leads out of the roots.
absl::StatusOr<MappedFile> MapTokenFile(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const int descriptor,
                   ClientRoots().Open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY));
  const absl::Cleanup close_it = [descriptor] { close(descriptor); };
  return MappedFile::Map(descriptor, path);
}

}  // namespace

absl::Status TokenFileRecords::Open() {
  std::filesystem::path prefix = file_.path;
  prefix.replace_extension();
  ASSIGN_OR_RETURN(MappedFile index, MapTokenFile(IndexPath(prefix)));
  ASSIGN_OR_RETURN(MappedFile tokens, MapTokenFile(TokensPath(prefix)));
  ASSIGN_OR_RETURN(IndexedDataset dataset,
                   IndexedDataset::FromFiles(std::move(index), std::move(tokens), prefix));
  dataset_ = std::move(dataset);
  return absl::OkStatus();
}

// Stores the tokens of a document, without those that mark its ends, in tokens_.
absl::Status TokenFileRecords::ReadTokens(int64_t document) {
  const Tokenizer& tokenizer = *settings_.tokenizer;
  tokens_.clear();
  for (int64_t i = dataset_->document_begin(document); i < dataset_->document_begin(document + 1);
       ++i) {
    dataset_->AppendRange(i, 0, dataset_->sequence_length(i), &tokens_);
  }
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
  if (!dataset_.has_value()) {
    const absl::Status opened = Open();
    if (absl::IsInvalidArgument(opened)) return opened;
    if (!opened.ok()) return DamageAt(0, opened);
  }
  if (next_ >= dataset_->num_documents()) return Record{.is_last = true};
  const int64_t document = next_++;
  const bool is_last = next_ == dataset_->num_documents();
  if (settings_.filter != nullptr) {
    const std::vector<FieldValue> nulls(settings_.filter->fields().size());
    if (!settings_.filter->Keeps(nulls)) {
      return Record{.kind = RecordKind::kFiltered, .num_filtered = 1, .is_last = is_last};
    }
  }
  RETURN_IF_ERROR(ReadTokens(document));
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
  if (position < 0 || position > dataset_->num_documents()) {
    return absl::OutOfRangeError(
        absl::StrCat("no document ", position, " of ", dataset_->num_documents()));
  }
  next_ = position;
  return absl::OkStatus();
}

int64_t TokenFileRecords::bytes_read() const {
  if (!dataset_.has_value() || dataset_->num_documents() == 0) return 0;
  const double share = static_cast<double>(next_) / static_cast<double>(dataset_->num_documents());
  return static_cast<int64_t>(share * static_cast<double>(file_.version.bytes));
}

}  // namespace braid
