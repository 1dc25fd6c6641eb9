#include "cli/stage_bench.h"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/random_id.h"
#include "base/status_macros.h"
#include "formats/tokenizer.h"
#include "pipeline/corpus/corpus_spec.h"
#include "pipeline/jobs/job_runner.h"
#include "pipeline/ordering/heldout_containment.h"
#include "pipeline/ordering/heldout_overlap.h"
#include "pipeline/stages/tokenize_stage.h"
#include "pipeline/store/document_store.h"
#include "pipeline/store/stage_store.h"
#include "rpc/interrupt.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kTokenizerSampleBytes = 256 << 10;
constexpr size_t kHeldoutEvery = 32;
constexpr double kMebibyte = 1 << 20;

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Returns the seconds that training takes per MiB.
absl::StatusOr<double> MeasureTokenizerTraining(const std::vector<std::string>& texts,
                                                const fs::path& model) {
  std::vector<std::string> sample;
  int64_t bytes = 0;
  for (const std::string& text : texts) {
    if (bytes >= kTokenizerSampleBytes) break;
    bytes += std::ssize(text);
    sample.push_back(text);
  }
  const auto start = std::chrono::steady_clock::now();
  RETURN_IF_ERROR(TrainTokenizer(
      sample, {.vocab_size = AutomaticVocabSize(bytes), .fit_vocab_size = true}, model));
  return SecondsSince(start) * kMebibyte / static_cast<double>(bytes);
}

absl::StatusOr<v1::CorpusSpec> JobSpec(const std::vector<std::string>& texts, const fs::path& root,
                                       const fs::path& model, int num_threads) {
  std::string lines;
  for (const std::string& text : texts) absl::StrAppend(&lines, "{\"text\":\"", text, "\"}\n");
  const fs::path corpus = root / "corpus.jsonl";
  RETURN_IF_ERROR(WriteFileAtomically(corpus, lines, Durability::kRenamed));
  v1::CorpusSpec spec;
  spec.add_paths(corpus.string());
  if (num_threads > 0) spec.set_num_threads(num_threads);
  spec.mutable_tokenizer()->set_model_path(model.string());
  spec.mutable_pack()->set_sequence_length(512);
  return ResolveCorpusSpec(spec);
}

// Compares the texts with some of them, as the stage order does.
absl::Status CompareWithHeldout(const DocumentStore& documents) {
  std::vector<uint32_t> training, heldout;
  for (size_t i = 0; i < static_cast<size_t>(documents.size()); ++i) {
    (i % kHeldoutEvery == 0 ? heldout : training).push_back(static_cast<uint32_t>(i));
  }
  const ProgressCallback ignore = [](int64_t, int64_t) { return absl::OkStatus(); };
  RETURN_IF_ERROR(
      FindHeldoutOverlaps(documents, NeighborLists{}, training, heldout, {}, ignore).status());
  return FindContainment(documents, training, heldout, {}, ignore).status();
}

absl::StatusOr<fs::path> OutputOf(const fs::path& store, const std::string& stage) {
  std::error_code error;
  for (fs::directory_iterator entry(store, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename().string().starts_with(stage + "-")) return entry->path();
  }
  return absl::NotFoundError(absl::StrCat(store.string(), ": no output of stage ", stage));
}

}  // namespace

absl::StatusOr<StageRates> MeasureStages(const std::vector<std::string>& texts, int num_threads) {
  std::error_code error;
  const fs::path root = fs::temp_directory_path(error) / absl::StrCat("braid-bench-", RandomId(8));
  RETURN_IF_ERROR(MakeDirectories(root));
  const absl::Cleanup remove = [&] { fs::remove_all(root, error); };
  StageRates rates;
  const fs::path model = root / "tokenizer.model";
  ASSIGN_OR_RETURN(rates.tokenizer_training, MeasureTokenizerTraining(texts, model));
  ASSIGN_OR_RETURN(const v1::CorpusSpec spec, JobSpec(texts, root, model, num_threads));
  StageStore store(root / "store");
  std::map<std::string, double> seconds;
  const JobHooks hooks = {.report =
                              [&](const v1::StageProgress& progress) {
                                if (progress.complete())
                                  seconds[progress.stage()] = progress.seconds();
                              },
                          .stop = Interrupted};
  ASSIGN_OR_RETURN(const v1::JobResult result, RunJob(spec, &store, hooks));
  ASSIGN_OR_RETURN(const fs::path ingest, OutputOf(root / "store", "ingest"));
  ASSIGN_OR_RETURN(const DocumentStore documents, DocumentStore::Open(ingest));
  const auto bytes = static_cast<double>(documents.TextBytes(0, documents.size()));
  rates.tokenize = seconds["tokenize"] / bytes;
  rates.pack = seconds["pack"] / static_cast<double>(result.num_tokens());
  const auto start = std::chrono::steady_clock::now();
  RETURN_IF_ERROR(CompareWithHeldout(documents));
  rates.heldout = SecondsSince(start) / bytes;
  return rates;
}

}  // namespace braid
