#include "pipeline/stages/tokenize_stage.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <utility>

#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "formats/indexed_dataset.h"
#include "formats/tokenizer.h"
#include "formats/word_encoder.h"
#include "pipeline/corpus/corpus_files.h"
#include "pipeline/ordering/random_permutation.h"
#include "pipeline/stages/corpus_tokens.h"
#include "pipeline/store/stage_key.h"
#include "retrieval/parallel_for.h"

namespace braid {
namespace {

constexpr int32_t kTokenizeFormatVersion = 1;
constexpr char kModelName[] = "tokenizer.model";
// The text of a batch, which takes about half a second. Cancellation takes effect between batches.
constexpr int64_t kTokenizeBatchBytes = int64_t{8} << 20;
constexpr int64_t kTokenizeBatchDocuments = 1 << 16;
constexpr int64_t kDocumentsPerTask = 64;

// Stores the user's tokenizer, after it has been loaded: an error names the user's file.
absl::Status StoreModel(const std::string& from, const std::filesystem::path& to) {
  ASSIGN_OR_RETURN(const TokenizerFile file, ReadClientTokenizer(from));
  RETURN_IF_ERROR(Tokenizer::Parse(file).status());
  return WriteFileAtomically(to, file.bytes);
}

int64_t TotalBytes(const std::vector<std::string>& texts) {
  int64_t bytes = 0;
  for (const std::string& text : texts) bytes += static_cast<int64_t>(text.size());
  return bytes;
}

absl::Status TrainModel(const DocumentStore& documents, const v1::CorpusSpec& resolved,
                        const ProgressCallback& progress, const std::filesystem::path& model) {
  std::vector<std::string> texts;
  for (const int64_t i :
       SampleDocuments(documents, resolved.tokenizer().sample_bytes(), resolved.seed())) {
    texts.emplace_back(documents.text(i));
  }
  TokenizerTrainingOptions options;
  options.vocab_size = resolved.tokenizer().vocab_size();
  if (options.vocab_size == 0) {
    options.vocab_size = AutomaticVocabSize(TotalBytes(texts));
    options.fit_vocab_size = true;
  }
  return TrainTokenizer(texts, options, model, [&] {
    return progress(StagePosition{
        .done = std::ssize(texts), .documents = 0, .unit = "documents: training the tokenizer"});
  });
}

absl::StatusOr<std::unique_ptr<Tokenizer>> ProvideTokenizer(const DocumentStore& documents,
                                                            const v1::CorpusSpec& resolved,
                                                            const ProgressCallback& progress,
                                                            StageWriter* stage) {
  const std::filesystem::path model = stage->directory() / kModelName;
  if (stage->Has(kModelName)) return Tokenizer::Load(model);
  if (resolved.tokenizer().model_path().empty()) {
    RETURN_IF_ERROR(TrainModel(documents, resolved, progress, model));
  } else {
    RETURN_IF_ERROR(StoreModel(resolved.tokenizer().model_path(), model));
  }
  ASSIGN_OR_RETURN(const FileSummary summary, SummarizeFile(model));
  stage->Add(summary, 1);
  RETURN_IF_ERROR(stage->SaveResumePoint({}));
  return Tokenizer::Load(model);
}

// Returns the tokens of each text, after `first_token` if there is one.
std::vector<std::vector<int32_t>> EncodeAll(std::span<const std::string_view> texts,
                                            std::optional<int32_t> first_token,
                                            WordEncoderPool* pool) {
  std::vector<std::vector<int32_t>> tokens(texts.size());
  ParallelFor(static_cast<int64_t>(texts.size()), kDocumentsPerTask,
              [&](int64_t begin, int64_t end) {
                std::unique_ptr<WordEncoder> encoder = pool->Borrow();
                for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
                  if (first_token.has_value()) tokens[i].push_back(*first_token);
                  encoder->Encode(texts[i], &tokens[i]);
                }
                pool->Return(std::move(encoder));
              });
  return tokens;
}

// Returns the tokens of documents [begin, end) that the corpus brings, after `first_token` if there
// is one.
std::vector<std::vector<int32_t>> CopyAll(const IndexedDataset& given, int64_t begin, int64_t end,
                                          std::optional<int32_t> first_token) {
  std::vector<std::vector<int32_t>> tokens(static_cast<size_t>(end - begin));
  for (int64_t i = begin; i < end; ++i) {
    std::vector<int32_t>& document = tokens[static_cast<size_t>(i - begin)];
    if (first_token.has_value()) document.push_back(*first_token);
    given.AppendRange(i, 0, given.sequence_length(i), &document);
  }
  return tokens;
}

absl::Status SavePoint(int64_t position, IndexedDatasetWriter* writer, StageWriter* stage) {
  ResumePoint point{.position = position};
  RETURN_IF_ERROR(writer->Sync(&point.files));
  return stage->SaveResumePoint(std::move(point));
}

}  // namespace

absl::StatusOr<std::string> TokenizeKey(const v1::CorpusSpec& resolved,
                                        const std::string& ingest_key) {
  const v1::TokenizerConfig& config = resolved.tokenizer();
  StageKey key("tokenize", kTokenizeFormatVersion);
  key.Add("ingest", ingest_key);
  if (config.model_path().empty()) {
    key.Add("vocab_size", config.vocab_size());
    key.Add("sample_bytes", static_cast<int64_t>(config.sample_bytes()));
    key.Add("seed", static_cast<uint64_t>(resolved.seed()));
  } else {
    // What is stored depends on the files beside the model, too.
    ASSIGN_OR_RETURN(const TokenizerFile model, ReadClientTokenizer(config.model_path()));
    key.Add("model", model.bytes);
  }
  if (config.begin_with_bos()) key.Add("begin_with_bos", int64_t{1});
  return key.Hex();
}

absl::StatusOr<std::optional<int32_t>> FirstToken(const v1::TokenizerConfig& config,
                                                  const Tokenizer& tokenizer) {
  if (!config.begin_with_bos()) return std::nullopt;
  if (tokenizer.bos_id() >= 0) return tokenizer.bos_id();
  return absl::InvalidArgumentError(
      absl::StrCat("tokenizer.begin_with_bos: ", config.model_path(),
                   " has no BOS token, expected one; leave it unset"));
}

int32_t AutomaticVocabSize(int64_t sample_bytes) {
  constexpr uint64_t kBytesPerPiece = 256, kSmallest = 512, kLargest = 32000;
  const uint64_t affordable = std::bit_floor(static_cast<uint64_t>(sample_bytes) / kBytesPerPiece);
  return static_cast<int32_t>(std::clamp(affordable, kSmallest, kLargest));
}

std::vector<int64_t> SampleDocuments(const DocumentStore& documents, int64_t sample_bytes,
                                     uint64_t seed) {
  std::vector<int64_t> sample;
  int64_t bytes = 0;
  for (const uint32_t i : RandomPermutation(documents.size(), seed)) {
    if (bytes >= sample_bytes) break;
    bytes += static_cast<int64_t>(documents.text(i).size());
    sample.push_back(i);
  }
  std::sort(sample.begin(), sample.end());
  return sample;
}

absl::Status Tokenize(const DocumentStore& documents, const std::filesystem::path& ingest,
                      const v1::CorpusSpec& resolved, const ProgressCallback& progress,
                      StageWriter* stage) {
  // Reports the starting position, so that the work of an earlier attempt does not inflate the
  // rate.
  RETURN_IF_ERROR(progress(stage->resume_point().position, documents.size()));
  ASSIGN_OR_RETURN(const auto tokenizer, ProvideTokenizer(documents, resolved, progress, stage));
  ASSIGN_OR_RETURN(const std::optional<int32_t> first_token,
                   FirstToken(resolved.tokenizer(), *tokenizer));
  ASSIGN_OR_RETURN(const std::optional<IndexedDataset> given,
                   OpenCorpusTokens(ingest, documents.size()));
  const ResumePoint& left = stage->resume_point();
  ASSIGN_OR_RETURN(const auto writer,
                   IndexedDatasetWriter::Resume(stage->directory() / "tokens",
                                                tokenizer->vocab_size(), left.files));
  const int64_t batch_bytes = std::min(kTokenizeBatchBytes, stage->chunk_bytes());
  WordEncoderPool encoders(*tokenizer, RetrievalThreads());
  for (int64_t begin = left.position; begin < documents.size();) {
    RETURN_IF_ERROR(progress(DocumentPosition(documents, begin, stage->chunk_bytes())));
    const int64_t end = documents.ChunkEnd(begin, batch_bytes, kTokenizeBatchDocuments);
    const auto batch = given.has_value()
                           ? CopyAll(*given, begin, end, first_token)
                           : EncodeAll(documents.Texts(begin, end), first_token, &encoders);
    for (const auto& tokens : batch) {
      RETURN_IF_ERROR(writer->AddSequence(tokens));
      writer->EndDocument();
    }
    if (stage->CountWork(documents.TextBytes(begin, end))) {
      RETURN_IF_ERROR(SavePoint(end, writer.get(), stage));
    }
    begin = end;
  }
  ASSIGN_OR_RETURN(const std::vector<FileSummary> files, writer->Commit());
  stage->Add(files, documents.size());
  return absl::OkStatus();
}

}  // namespace braid
