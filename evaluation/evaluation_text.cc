#include "evaluation/evaluation_text.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "evaluation/heldout_windows.h"
#include "formats/indexed_dataset.h"
#include "formats/word_encoder.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr size_t kWordBytes = size_t{64} << 20;  // size limit of the encoder's cache of words

bool IsFull(const DomainText& domain, int64_t max_tokens) {
  return max_tokens > 0 && static_cast<int64_t>(domain.tokens.size()) >= max_tokens;
}

void Shorten(int64_t max_tokens, DomainText* domain) {
  if (!IsFull(*domain, max_tokens)) return;
  domain->tokens.resize(max_tokens);
  domain->bytes.resize(std::min<size_t>(domain->bytes.size(), max_tokens));
}

// Fills in the document starts and token bytes of a stream, whose last document may be cut.
void MeasureDocuments(const TokenBytes& table, int32_t eos, DomainText* domain) {
  auto begin = domain->tokens.begin();
  while (begin != domain->tokens.end()) {
    domain->documents.push_back(begin - domain->tokens.begin());
    const auto end = std::find(begin, domain->tokens.end(), eos);
    AppendBytes(table, {begin, end}, std::nullopt, &domain->bytes);
    if (end == domain->tokens.end()) break;
    domain->bytes.push_back(0);
    begin = end + 1;
  }
}

absl::Status CheckTokens(const fs::path& prefix, const DatasetInfo& info,
                         std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) {
    if (token >= 0 && token < info.vocab_size) continue;
    return absl::DataLossError(absl::StrCat(prefix.string(), ".bin holds token ", token,
                                            ", expected less than vocab_size ", info.vocab_size));
  }
  return absl::OkStatus();
}

absl::StatusOr<DomainText> ReadHeldoutDomain(const fs::path& prefix, const DatasetInfo& info,
                                             const TokenBytes& bytes, int64_t max_tokens) {
  ASSIGN_OR_RETURN(const IndexedDataset windows, IndexedDataset::Open(prefix));
  DomainText domain;
  domain.name = prefix.filename().string();
  for (int64_t i = 0; i < windows.num_sequences() && !IsFull(domain, max_tokens); ++i) {
    windows.AppendRange(i, 0, windows.sequence_length(i), &domain.tokens);
  }
  Shorten(max_tokens, &domain);
  RETURN_IF_ERROR(CheckTokens(prefix, info, domain.tokens));
  MeasureDocuments(bytes, info.eos_id, &domain);
  return domain;
}

// Encodes documents and appends them to their domains.
class TextBuilder {
 public:
  TextBuilder(const Tokenizer& tokenizer, std::optional<int32_t> first_token, int64_t max_tokens)
      : encoder_(tokenizer, kWordBytes),
        bytes_(MeasureTokens(tokenizer)),
        first_token_(first_token),
        max_tokens_(max_tokens),
        eos_(tokenizer.eos_id()) {}

  void Add(std::string_view name, std::string_view text) {
    DomainText& domain = DomainNamed(std::string(name));
    if (IsFull(domain, max_tokens_)) return;
    domain.documents.push_back(static_cast<int64_t>(domain.tokens.size()));
    if (first_token_.has_value()) {
      domain.tokens.push_back(*first_token_);
      domain.bytes.push_back(0);
    }
    document_.clear();
    encoder_.Encode(text, &document_);
    domain.tokens.insert(domain.tokens.end(), document_.begin(), document_.end());
    AppendBytes(bytes_, document_, static_cast<int64_t>(text.size()), &domain.bytes);
    domain.tokens.push_back(eos_);
    domain.bytes.push_back(0);
    Shorten(max_tokens_, &domain);
  }

  EvaluationText Finish() { return {.domains = std::move(domains_), .eos_id = eos_}; }

 private:
  DomainText& DomainNamed(const std::string& name) {
    const auto [it, added] = index_.try_emplace(name, domains_.size());
    if (added) domains_.push_back({.name = name, .tokens = {}, .bytes = {}, .documents = {}});
    return domains_[it->second];
  }

  WordEncoder encoder_;
  const TokenBytes bytes_;
  const std::optional<int32_t> first_token_;
  const int64_t max_tokens_;
  const int32_t eos_;
  std::vector<int32_t> document_;  // scratch
  std::vector<DomainText> domains_;
  std::map<std::string, size_t> index_;  // index by domain name
};

}  // namespace

int64_t DomainText::num_windows(int64_t length) const {
  if (answers.has_value()) return std::ssize(answers->sequences);
  return (static_cast<int64_t>(tokens.size()) + length - 1) / length;
}

int64_t EvaluationText::num_windows(int64_t length) const {
  int64_t windows = 0;
  for (const DomainText& domain : domains) windows += domain.num_windows(length);
  return windows;
}

Batch LoadWindows(const DomainText& domain, int64_t begin, int64_t count, int64_t length,
                  int32_t eos) {
  if (domain.answers.has_value()) {
    const std::span sequences = std::span(domain.answers->sequences).subspan(begin, count);
    Batch batch = MakeBatch(sequences, length, eos);
    for (int64_t i = 0; i < count; ++i) domain.answers->targets.Apply(begin + i, i, &batch);
    return batch;
  }
  std::vector<std::vector<int32_t>> sequences;
  for (int64_t window = begin; window < begin + count; ++window) {
    const auto first = domain.tokens.begin() + window * length;
    const int64_t left = domain.tokens.end() - first;
    std::vector<int32_t>& sequence = sequences.emplace_back();
    sequence.push_back(window == 0 ? eos : *(first - 1));
    sequence.insert(sequence.end(), first, first + std::min(length, left));
  }
  return MakeBatch(sequences, length, eos);
}

absl::StatusOr<EvaluationText> HeldoutText(const fs::path& dataset_dir, const DatasetInfo& info,
                                           const TokenBytes& bytes, int64_t max_tokens) {
  EvaluationText text{.domains = {}, .eos_id = info.eos_id};
  for (const std::string& name : info.domains) {
    ASSIGN_OR_RETURN(text.domains.emplace_back(),
                     ReadHeldoutDomain(dataset_dir / "heldout" / name, info, bytes, max_tokens));
  }
  if (text.domains.empty()) return NoHeldoutSplit(dataset_dir);
  return text;
}

absl::StatusOr<EvaluationText> TextOfFiles(std::span<const std::string> paths,
                                           const DocumentReader& reader, const Tokenizer& tokenizer,
                                           bool begin_with_bos, int64_t max_tokens,
                                           ReadSummary* summary) {
  std::optional<int32_t> first_token;
  if (begin_with_bos) {
    if (tokenizer.bos_id() < 0) {
      return absl::FailedPreconditionError(
          "the model's texts begin with BOS, but its tokenizer has no such token");
    }
    first_token = tokenizer.bos_id();
  }
  TextBuilder builder(tokenizer, first_token, max_tokens);
  ASSIGN_OR_RETURN(*summary, reader(paths, [&](std::string_view domain, std::string_view text) {
    builder.Add(domain, text);
  }));
  return builder.Finish();
}

}  // namespace braid
