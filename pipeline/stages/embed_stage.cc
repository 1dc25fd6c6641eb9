#include "pipeline/stages/embed_stage.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "formats/npy.h"
#include "pipeline/store/json_file.h"
#include "pipeline/store/resume_point.h"
#include "pipeline/store/stage_key.h"
#include "retrieval/contriever_config.h"
#include "retrieval/contriever_directory.h"
#include "retrieval/contriever_process.h"
#include "retrieval/document_frequencies.h"
#include "retrieval/embedder.h"
#include "retrieval/embedding_batch.h"
#include "retrieval/embedding_client.h"
#include "retrieval/hashing_embedder.h"
#include "retrieval/parallel_for.h"
#include "retrieval/static_embedder.h"

namespace braid {
namespace {

constexpr int32_t kEmbedFormatVersion = 1;
constexpr char kFrequenciesName[] = "document_frequencies.npy";
constexpr char kVectorStep[] = "vectors";
constexpr char kEmbedderName[] = "embedder.json";
constexpr char kTruncatedField[] = "num_truncated";
// The text of a batch. Cancellation takes effect between batches, or at once if the embedder is a
// separate process.
constexpr int64_t kBatchBytes = int64_t{8} << 20;
constexpr int64_t kEmbedBatchDocuments = 8192;  // 16 MiB of vectors of 512 floats

// The size of a batch, which has one or more groups of documents, and the cost of embedding a byte
// relative to other stages.
struct Pace {
  int64_t group_bytes, group_documents, batch_documents;
  int64_t weight = 1;
};

Pace PaceOf(const EmbedPlan& plan, const StageWriter& stage) {
  // A BERT encoder takes about a hundred times as long per byte as the other stages, and its
  // rounding depends on the texts of a group, so its groups must depend neither on the chunk size
  // nor on the size of a batch, which grows with the number of servers.
  if (plan.batch_texts > 0) return {kBatchBytes, plan.group_texts, plan.batch_texts, 64};
  return {std::min(kBatchBytes, stage.chunk_bytes()), kEmbedBatchDocuments, kEmbedBatchDocuments};
}

absl::StatusOr<std::unique_ptr<EmbeddingClient>> ConnectRemote(const v1::EmbedderConfig& config,
                                                               const StopCheck& check,
                                                               const ProgressCallback& progress) {
  EmbeddingClientOptions options;
  options.check = check;
  options.on_waiting = [progress](const std::string& what) { progress.Waiting(what); };
  options.addresses.assign(config.addresses().begin(), config.addresses().end());
  return EmbeddingClient::Connect(options);
}

absl::StatusOr<FileSummary> SaveFrequencies(const DocumentFrequencies& frequencies,
                                            const std::filesystem::path& path) {
  RETURN_IF_ERROR(frequencies.Save(path));
  return SummarizeFile(path);
}

// The first of the two passes of the hashing embedder: counts document frequencies. Its resume
// points refer to a snapshot of the counts.
class FrequencyPass {
 public:
  FrequencyPass(const DocumentStore& documents, int32_t max_ngram, StageWriter* stage)
      : documents_(documents), stage_(stage), frequencies_(max_ngram) {}

  absl::StatusOr<DocumentFrequencies> Run(const ProgressCallback& progress) {
    RETURN_IF_ERROR(LoadSnapshot());
    const int64_t batch_bytes = std::min(kBatchBytes, stage_->chunk_bytes());
    for (int64_t begin = stage_->resume_point().position; begin < documents_.size();) {
      RETURN_IF_ERROR(progress(0, documents_.size()));
      const int64_t end = documents_.ChunkEnd(begin, batch_bytes, kEmbedBatchDocuments);
      frequencies_.AddAll(documents_.Texts(begin, end));
      if (stage_->CountWork(documents_.TextBytes(begin, end))) RETURN_IF_ERROR(SavePoint(end));
      begin = end;
    }
    if (!snapshot_.empty()) stage_->DropScratch(snapshot_);
    return std::move(frequencies_);
  }

 private:
  absl::Status LoadSnapshot() {
    if (stage_->resume_point().position == 0) return absl::OkStatus();
    snapshot_ = stage_->resume_point().state.value("snapshot", "");
    ASSIGN_OR_RETURN(frequencies_, DocumentFrequencies::Load(stage_->directory() / snapshot_));
    return absl::OkStatus();
  }

  absl::Status SavePoint(int64_t position) {
    if (!snapshot_.empty()) stage_->DropScratch(snapshot_);
    snapshot_ = absl::StrCat("frequencies-", position, ".npy");
    ASSIGN_OR_RETURN(const FileSummary summary,
                     SaveFrequencies(frequencies_, stage_->directory() / snapshot_));
    stage_->AddScratch(summary);
    ResumePoint point{.position = position};
    point.state["snapshot"] = snapshot_;
    return stage_->SaveResumePoint(std::move(point));
  }

  const DocumentStore& documents_;
  StageWriter* const stage_;
  DocumentFrequencies frequencies_;
  std::string snapshot_;  // its file name; "" before the first resume point
};

absl::StatusOr<DocumentFrequencies> ProvideFrequencies(const DocumentStore& documents,
                                                       int32_t max_ngram,
                                                       const ProgressCallback& progress,
                                                       StageWriter* stage) {
  const std::filesystem::path path = stage->directory() / kFrequenciesName;
  if (stage->Has(kFrequenciesName)) return DocumentFrequencies::Load(path);
  ASSIGN_OR_RETURN(DocumentFrequencies frequencies,
                   FrequencyPass(documents, max_ngram, stage).Run(progress));
  ASSIGN_OR_RETURN(const FileSummary summary, SaveFrequencies(frequencies, path));
  stage->Add(summary, DocumentFrequencies::kNumBuckets);
  RETURN_IF_ERROR(stage->SaveResumePoint({.step = kVectorStep}));
  return frequencies;
}

absl::StatusOr<std::unique_ptr<Embedder>> FitHashing(const DocumentStore& documents,
                                                     const v1::EmbedderConfig& config,
                                                     const ProgressCallback& progress,
                                                     StageWriter* stage) {
  ASSIGN_OR_RETURN(DocumentFrequencies frequencies,
                   ProvideFrequencies(documents, config.max_ngram(), progress, stage));
  const HashingOptions options = {.dimension = config.dimension() > 0
                                                   ? config.dimension()
                                                   : AutomaticDimension(documents.size()),
                                  .max_ngram = config.max_ngram()};
  return HashingEmbedder::Create(options, std::move(frequencies));
}

std::optional<std::string> PrefixOf(const v1::EmbedderConfig& config) {
  return config.has_text_prefix() ? std::optional(config.text_prefix()) : std::nullopt;
}

// Creates the embedder that the settings name. `keep_going` is called while another process embeds.
absl::StatusOr<std::unique_ptr<Embedder>> MakeEmbedder(const DocumentStore& documents,
                                                       const v1::EmbedderConfig& config,
                                                       const ProgressCallback& progress,
                                                       const StopCheck& keep_going,
                                                       StageWriter* stage) {
  if (config.kind() == "remote") return ConnectRemote(config, keep_going, progress);
  if (config.kind() == "contriever") {
    return ContrieverProcess::Start({.directory = config.model_dir(),
                                     .max_tokens = config.max_tokens(),
                                     .prefix = PrefixOf(config),
                                     .num_threads = RetrievalThreads(),
                                     .keep_going = keep_going});
  }
  if (config.kind() == "static") {
    return StaticEmbedder::Load({.directory = config.model_dir()});
  }
  return FitHashing(documents, config, progress, stage);
}

// Checks that an embedding server takes every text.
absl::Status CheckTextsFit(const DocumentStore& documents) {
  for (int64_t i = 0; i < documents.size(); ++i) {
    const int64_t size = documents.TextBytes(i, i + 1);
    if (size <= kMaxEmbeddingTextBytes) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("document ", std::string(documents.id(i)), ": got ", size,
                     " bytes, expected at most the ", kMaxEmbeddingTextBytes,
                     " of one request to an embedding server; cut long documents with "
                     "ingest.split_bytes"));
  }
  return absl::OkStatus();
}

// The pass that computes the vectors: the second one of the hashing embedder, the only one of
// others.
class VectorPass {
 public:
  VectorPass(const DocumentStore& documents, const v1::EmbedderConfig& config,
             const EmbedPlan& plan, const ProgressCallback& progress, StageWriter* stage)
      : documents_(documents),
        config_(config),
        plan_(plan),
        pace_(PaceOf(plan, *stage)),
        progress_(progress),
        stage_(stage) {
    // A resume point of the first pass does not apply to this one.
    if (stage->resume_point().step == kVectorStep) left_ = stage->resume_point();
    if (left_.state.is_object()) num_truncated_ = left_.state.value(kTruncatedField, int64_t{0});
    position_ = PositionAt(left_.position);
  }

  absl::Status Run() {
    const auto keep_going = [this] { return progress_(position_); };
    ASSIGN_OR_RETURN(embedder_, MakeEmbedder(documents_, config_, progress_, keep_going, stage_));
    RETURN_IF_ERROR(CheckFingerprint());
    ASSIGN_OR_RETURN(auto writer, NpyWriter<float>::Resume(stage_->directory() / "embeddings.npy",
                                                           {embedder_->dimension()}, left_.files));
    for (int64_t begin = left_.position; begin < documents_.size();) {
      position_ = PositionAt(begin);
      RETURN_IF_ERROR(progress_(position_));
      const int64_t end = documents_.ChunksEnd(begin, pace_.group_bytes, pace_.group_documents,
                                               pace_.batch_documents);
      RETURN_IF_ERROR(EmbedBatch(begin, end, &writer));
      const int64_t work = documents_.TextBytes(begin, end) * pace_.weight;
      if (stage_->CountWork(work)) RETURN_IF_ERROR(SavePoint(end, &writer));
      begin = end;
    }
    ASSIGN_OR_RETURN(const FileSummary summary, writer.Commit());
    stage_->Add(summary, documents_.size());
    return plan_.fingerprint.empty() ? absl::OkStatus() : AddEmbedderInfo();
  }

 private:
  // Checks that the embedder is that of the plan: vectors of another one would be stored under the
  // key of the plan and reused by later jobs.
  absl::Status CheckFingerprint() const {
    if (plan_.fingerprint.empty() || embedder_->fingerprint() == plan_.fingerprint) {
      return absl::OkStatus();
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "embedder changed while the job ran: got fingerprint \"", embedder_->fingerprint(),
        "\", expected \"", plan_.fingerprint, "\"; resume the job"));
  }

  StagePosition PositionAt(int64_t done) const {
    const int64_t chunk_bytes = std::max<int64_t>(1, stage_->chunk_bytes() / pace_.weight);
    return DocumentPosition(documents_, done, chunk_bytes);
  }

  absl::Status EmbedBatch(int64_t begin, int64_t end, NpyWriter<float>* writer) {
    vectors_.assign(static_cast<size_t>((end - begin) * embedder_->dimension()), 0);
    ASSIGN_OR_RETURN(const int64_t num_cut,
                     embedder_->EmbedAndCountCut(documents_.Texts(begin, end), vectors_));
    num_truncated_ += num_cut;
    return writer->AppendRows(vectors_);
  }

  absl::Status SavePoint(int64_t position, NpyWriter<float>* writer) {
    ResumePoint point{.step = kVectorStep, .position = position};
    if (num_truncated_ > 0) point.state[kTruncatedField] = num_truncated_;
    RETURN_IF_ERROR(writer->Sync(&point.files));
    return stage_->SaveResumePoint(std::move(point));
  }

  absl::Status AddEmbedderInfo() {
    const nlohmann::json info = {{"fingerprint", embedder_->fingerprint()},
                                 {kTruncatedField, num_truncated_}};
    return stage_->AddText(kEmbedderName, FormatJson(info), 1);
  }

  const DocumentStore& documents_;
  const v1::EmbedderConfig& config_;
  const EmbedPlan& plan_;
  const Pace pace_;
  const ProgressCallback& progress_;
  StageWriter* const stage_;
  ResumePoint left_;
  int64_t num_truncated_ = 0;  // including earlier attempts
  StagePosition position_;     // reported again while another process embeds
  std::unique_ptr<Embedder> embedder_;
  std::vector<float> vectors_;
};

}  // namespace

int32_t AutomaticDimension(int64_t num_documents) {
  constexpr int64_t kMostDocuments = 500'000;
  return num_documents <= kMostDocuments ? 512 : 256;
}

absl::StatusOr<EmbedPlan> PlanEmbedding(const v1::CorpusSpec& resolved,
                                        const std::string& ingest_key,
                                        const ProgressCallback& progress) {
  const v1::EmbedderConfig& config = resolved.embedder();
  EmbedPlan plan;
  StageKey key("embed", kEmbedFormatVersion);
  key.Add("ingest", ingest_key).Add("kind", config.kind());
  if (config.kind() == "remote") {
    ASSIGN_OR_RETURN(const auto client, ConnectRemote(
                                            config, [&] { return progress(0, 0); }, progress));
    plan.fingerprint = client->fingerprint();
    plan.batch_texts = client->preferred_batch_texts();
    plan.group_texts = client->group_texts();
  } else if (config.kind() == "contriever") {
    ASSIGN_OR_RETURN(
        const ContrieverDirectory model,
        ContrieverDirectory::Open(config.model_dir(), config.max_tokens(), PrefixOf(config)));
    ASSIGN_OR_RETURN(plan.fingerprint, model.Fingerprint());
    plan.batch_texts = plan.group_texts = kContrieverBatchTexts;
  } else if (config.kind() == "static") {
    ASSIGN_OR_RETURN(const auto embedder, StaticEmbedder::Load({.directory = config.model_dir()}));
    plan.fingerprint = embedder->fingerprint();
  } else if (config.kind() == "hashing") {
    key.Add("dimension", config.dimension()).Add("max_ngram", config.max_ngram());
  }
  if (!plan.fingerprint.empty()) key.Add("fingerprint", plan.fingerprint);
  plan.key = key.Hex();
  return plan;
}

absl::Status CheckEmbedderFiles(const v1::EmbedderConfig& config) {
  if (config.kind() == "contriever") {
    return ContrieverDirectory::Open(config.model_dir(), config.max_tokens(), PrefixOf(config))
        .status();
  }
  if (config.kind() == "static") return StaticEmbedder::Check({.directory = config.model_dir()});
  return absl::OkStatus();
}

absl::Status Embed(const DocumentStore& documents, const v1::EmbedderConfig& config,
                   const EmbedPlan& plan, const ProgressCallback& progress, StageWriter* stage) {
  if (config.kind() == "remote") RETURN_IF_ERROR(CheckTextsFit(documents));
  return VectorPass(documents, config, plan, progress, stage).Run();
}

double CosineOfRows(const NpyArray<float>& embeddings, uint32_t a, uint32_t b) {
  const std::span<const float> x = embeddings.row(a), y = embeddings.row(b);
  double product = 0, x_square = 0, y_square = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    product += double{x[i]} * double{y[i]};
    x_square += double{x[i]} * double{x[i]};
    y_square += double{y[i]} * double{y[i]};
  }
  const double norm = std::sqrt(x_square * y_square);
  return norm > 0 ? product / norm : 0;
}

absl::StatusOr<int64_t> ReadNumTruncated(const std::filesystem::path& directory) {
  const auto about = ReadJsonFile(directory / kEmbedderName);
  if (absl::IsNotFound(about.status())) return 0;
  RETURN_IF_ERROR(about.status());
  return about->value(kTruncatedField, int64_t{0});
}

}  // namespace braid
