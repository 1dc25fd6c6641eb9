#include "pipeline/jobs/job_runner.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/process_memory.h"
#include "base/status_macros.h"
#include "formats/contamination.h"
#include "formats/npy.h"
#include "formats/packed_dataset.h"
#include "pipeline/jobs/retry_policy.h"
#include "pipeline/stages/corpus_vectors.h"
#include "pipeline/stages/deduplicate_stage.h"
#include "pipeline/stages/domain_summary.h"
#include "pipeline/stages/embed_stage.h"
#include "pipeline/stages/ingest_stage.h"
#include "pipeline/stages/neighbor_stage.h"
#include "pipeline/stages/order_stage.h"
#include "pipeline/stages/pack_stage.h"
#include "pipeline/stages/tokenize_stage.h"
#include "pipeline/store/document_store.h"
#include "pipeline/store/json_file.h"
#include "pipeline/store/progress_callback.h"
#include "pipeline/store/stage_meter.h"
#include "retrieval/parallel_for.h"

namespace braid {
namespace {

// The maximum number of domains in a result, so that a page of results fits into a message.
constexpr size_t kMaxDomains = 1024;

absl::Status InStage(const std::string& stage, const absl::Status& status) {
  if (status.ok() || absl::IsCancelled(status)) return status;
  return absl::Status(status.code(), absl::StrCat(stage, ": ", status.message()));
}

// Checks that the files of a setting are still those for which the key was computed.
absl::Status CheckSameKey(const char* setting, const std::string& key,
                          const absl::StatusOr<std::string>& now) {
  RETURN_IF_ERROR(now.status());
  if (*now == key) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("files of ", setting,
                   " changed while they were read; resume the job when they are complete"));
}

void AddContamination(const std::optional<Contamination>& contamination, v1::JobResult* result) {
  if (!contamination.has_value()) return;
  result->set_num_contaminated(contamination->num_documents);
  for (const ContaminationFile& file : contamination->files) {
    v1::ContaminationSummary* summary = result->add_contamination();
    summary->set_file(file.path);
    summary->set_num_texts(file.num_texts);
    summary->set_num_short_texts(file.num_short_texts);
    summary->set_num_matched_texts(file.num_matched_texts);
    summary->set_num_matched_documents(file.num_matched_documents);
  }
}

// One run of a job. Each Run method produces one stage and opens the outputs that later stages
// need.
class JobRun {
 public:
  JobRun(const v1::CorpusSpec& resolved, StageStore* store, const JobHooks& hooks)
      : spec_(resolved), store_(store), hooks_(hooks) {}

  absl::StatusOr<v1::JobResult> Run();

 private:
  using Work = std::function<absl::Status(const ProgressCallback&, StageWriter*)>;
  using Notes =
      std::function<absl::StatusOr<std::vector<std::string>>(const std::filesystem::path& output)>;

  // Produces the output of a stage under `key` and reports its progress, at the end with the notes
  // on the output, if there is a function that returns them.
  absl::StatusOr<std::filesystem::path> Stage(const std::string& name, const std::string& unit,
                                              const absl::StatusOr<std::string>& key,
                                              const Work& work, const Notes& notes = nullptr);
  StageMeter Meter(const std::string& stage, const std::string& unit) const;
  absl::Status Report(const std::string& key, v1::StageProgress progress);
  absl::Status KeepGoing() const;
  // Records which servers the current stage waits for; called from any thread.
  void SetWaiting(const std::string& what);

  absl::Status RunIngest();
  absl::Status RunTokenize();
  absl::Status RunEmbed();
  absl::Status RunNeighbors();
  absl::Status RunDeduplicate();
  absl::Status RunOrder();
  absl::Status RunPack();
  absl::StatusOr<v1::JobResult> Summarize() const;

  const v1::CorpusSpec& spec_;
  StageStore* const store_;
  const JobHooks& hooks_;

  std::string ingest_key_, tokenize_key_, embed_key_, neighbor_key_, deduplicate_key_, order_key_;
  std::filesystem::path ingest_, tokenize_, embed_, deduplicate_, dataset_;
  std::optional<DocumentStore> documents_;
  std::optional<StoredNeighbors> neighbors_;
  std::optional<NpyArray<uint8_t>> keep_;
  StoredOrder order_;
  int64_t num_rejected_ = 0, num_exact_duplicates_ = 0, num_near_duplicates_ = 0;
  double bytes_per_document_ = 0;
  std::vector<std::shared_ptr<const DirectoryUse>> uses_;  // keep the outputs until the job ends
  std::mutex mutex_;
  std::string waiting_;  // guarded by mutex_
};

void JobRun::SetWaiting(const std::string& what) {
  const std::lock_guard lock(mutex_);
  waiting_ = what.empty() ? ""
                          : absl::StrCat(what, "; the job fails after ", kMaxFailures,
                                         " attempts without progress");
}

absl::Status JobRun::Report(const std::string& key, v1::StageProgress progress) {
  progress.set_key(key);
  {
    const std::lock_guard lock(mutex_);
    progress.set_waiting(waiting_);
  }
  hooks_.report(progress);
  return KeepGoing();
}

absl::Status JobRun::KeepGoing() const {
  return hooks_.stop() ? absl::CancelledError("the job was asked to stop") : absl::OkStatus();
}

StageMeter JobRun::Meter(const std::string& stage, const std::string& unit) const {
  return StageMeter({.stage = stage,
                     .unit = unit,
                     .bytes_per_document = bytes_per_document_,
                     .rejects = num_rejected_,
                     .clock = SteadySeconds,
                     .resident_bytes = [] { return ReadProcessMemory().resident_bytes; }});
}

absl::StatusOr<std::filesystem::path> JobRun::Stage(const std::string& name,
                                                    const std::string& unit,
                                                    const absl::StatusOr<std::string>& key,
                                                    const Work& work, const Notes& notes) {
  if (!key.ok()) return InStage(name, key.status());
  StageMeter meter = Meter(name, unit);
  StagePosition last;
  int64_t num_resume_points = 0;
  const auto report = [&](v1::StageProgress progress) {
    progress.set_num_resume_points(num_resume_points);
    return Report(*key, std::move(progress));
  };
  RETURN_IF_ERROR(report(meter.Started()));
  const auto build = [&](StageWriter& writer) -> absl::Status {
    num_resume_points = writer.num_resume_points();
    // The last attempt may have died before it reported the point from which this one continues.
    if (writer.resumed()) RETURN_IF_ERROR(report(meter.Started()));
    const ProgressCallback progress(
        [&](const StagePosition& position) {
          num_resume_points = writer.num_resume_points();
          return report(meter.At(last = position));
        },
        [&](const std::string& what) { SetWaiting(what); });
    return work(progress, &writer);
  };
  auto stored = store_->Produce(name, *key, build, hooks_.stop);
  if (!stored.ok()) {
    // The last report may have named servers that the stage waited for.
    report(meter.At(last)).IgnoreError();
    return InStage(name, stored.status());
  }
  uses_.push_back(std::move(stored->use));
  v1::StageProgress completed = meter.Completed(stored->reused);
  if (notes) {
    ASSIGN_OR_RETURN(const std::vector<std::string> texts, notes(stored->directory));
    completed.mutable_notes()->Assign(texts.begin(), texts.end());
  }
  // If this stops the job, the next attempt reuses the output, which is published.
  RETURN_IF_ERROR(report(std::move(completed)));
  return stored->directory;
}

absl::Status JobRun::RunIngest() {
  const auto keep_listing = [this] { return KeepGoing(); };
  const absl::StatusOr<std::string> key = IngestKey(spec_, keep_listing);
  const auto work = [&](const auto& progress, auto* stage) {
    return Ingest(spec_, *key, keep_listing, progress, stage);
  };
  const auto notes =
      [](const std::filesystem::path& output) -> absl::StatusOr<std::vector<std::string>> {
    ASSIGN_OR_RETURN(const IngestSummary summary, ReadIngestSummary(output));
    return summary.notes;
  };
  ASSIGN_OR_RETURN(ingest_, Stage("ingest", "bytes", key, work, notes));
  ingest_key_ = *key;
  ASSIGN_OR_RETURN(documents_, DocumentStore::Open(ingest_));
  ASSIGN_OR_RETURN(const IngestSummary summary, ReadIngestSummary(ingest_));
  num_rejected_ = summary.num_rejected;
  const auto num_documents = static_cast<double>(std::max<int64_t>(documents_->size(), 1));
  bytes_per_document_ = static_cast<double>(documents_->num_text_bytes()) / num_documents;
  return absl::OkStatus();
}

absl::Status JobRun::RunTokenize() {
  const absl::StatusOr<std::string> key = TokenizeKey(spec_, ingest_key_);
  ASSIGN_OR_RETURN(
      tokenize_, Stage("tokenize", "documents", key, [&](const auto& progress, auto* stage) {
        RETURN_IF_ERROR(Tokenize(*documents_, ingest_, spec_, progress, stage));
        return CheckSameKey("tokenizer.model_path", *key, TokenizeKey(spec_, ingest_key_));
      }));
  tokenize_key_ = *key;
  return absl::OkStatus();
}

absl::Status JobRun::RunEmbed() {
  // The key contains the fingerprint of the embedder, so servers are asked, and may be waited for,
  // before the stage has a key.
  StageMeter meter = Meter("embed", "documents");
  const absl::StatusOr<EmbedPlan> plan =
      PlanEmbedding(spec_, ingest_key_,
                    {[&](const StagePosition& position) { return Report("", meter.At(position)); },
                     [&](const std::string& what) { SetWaiting(what); }});
  if (!plan.ok()) {
    Report("", meter.At({})).IgnoreError();
    return InStage("embed", plan.status());
  }
  ASSIGN_OR_RETURN(embed_,
                   Stage("embed", "documents", plan->key, [&](const auto& progress, auto* stage) {
                     if (spec_.embedder().kind() == "corpus") {
                       return CopyCorpusVectors(*documents_, ingest_, progress, stage);
                     }
                     return Embed(*documents_, spec_.embedder(), *plan, progress, stage);
                   }));
  embed_key_ = plan->key;
  return absl::OkStatus();
}

absl::Status JobRun::RunNeighbors() {
  neighbor_key_ = NeighborKey(spec_, embed_key_, documents_->size());
  ASSIGN_OR_RETURN(
      const std::filesystem::path directory,
      Stage("neighbors", "documents", neighbor_key_, [&](const auto& progress, auto* stage) {
        return FindNeighbors(embed_, spec_, progress, stage);
      }));
  ASSIGN_OR_RETURN(neighbors_, StoredNeighbors::Open(directory));
  return absl::OkStatus();
}

absl::Status JobRun::RunDeduplicate() {
  const absl::StatusOr<std::string> key = DeduplicateKey(spec_, neighbor_key_);
  ASSIGN_OR_RETURN(
      deduplicate_, Stage("deduplicate", "documents", key, [&](const auto& progress, auto* stage) {
        RETURN_IF_ERROR(Deduplicate(*documents_, *neighbors_, embed_, spec_, progress, stage));
        return CheckSameKey("decontaminate.paths", *key, DeduplicateKey(spec_, neighbor_key_));
      }));
  deduplicate_key_ = *key;
  ASSIGN_OR_RETURN(keep_, NpyArray<uint8_t>::Open(deduplicate_ / "keep.npy"));
  ASSIGN_OR_RETURN(const StoredDuplicates duplicates, StoredDuplicates::Open(deduplicate_));
  num_exact_duplicates_ = duplicates.num_exact();
  num_near_duplicates_ = duplicates.num_near();
  return absl::OkStatus();
}

absl::Status JobRun::RunOrder() {
  order_key_ = OrderKey(spec_, deduplicate_key_);
  ASSIGN_OR_RETURN(const std::filesystem::path directory,
                   Stage("order", "documents", order_key_, [&](const auto& progress, auto* stage) {
                     return Order(*documents_, *neighbors_, keep_->values(), embed_, spec_,
                                  progress, stage);
                   }));
  ASSIGN_OR_RETURN(order_, StoredOrder::Read(directory));
  return absl::OkStatus();
}

absl::Status JobRun::RunPack() {
  const std::string key = PackKey(spec_, tokenize_key_, order_key_);
  const PackInputs inputs = {*documents_, *neighbors_, order_, tokenize_, embed_, deduplicate_};
  ASSIGN_OR_RETURN(dataset_,
                   Stage("pack", "documents", key, [&](const auto& progress, auto* stage) {
                     return Pack(inputs, spec_, key, progress, stage);
                   }));
  return absl::OkStatus();
}

absl::StatusOr<v1::JobResult> JobRun::Summarize() const {
  ASSIGN_OR_RETURN(const IngestSummary ingest, ReadIngestSummary(ingest_));
  ASSIGN_OR_RETURN(const DatasetInfo dataset, ReadDatasetInfo(dataset_));
  ASSIGN_OR_RETURN(const nlohmann::json ordering, ReadJsonFile(dataset_ / "ordering_report.json"));
  ASSIGN_OR_RETURN(const int64_t num_truncated, ReadNumTruncated(embed_));
  ASSIGN_OR_RETURN(std::vector<v1::DomainSummary> domains, ReadDomainSummaries(dataset_));
  ASSIGN_OR_RETURN(const auto contamination, ReadContamination(dataset_));
  v1::JobResult result;
  result.set_num_truncated(num_truncated);
  result.set_dataset_dir(dataset_.string());
  result.set_num_documents_read(documents_->size() + ingest.num_rejected + ingest.num_filtered);
  result.set_num_filtered(ingest.num_filtered);
  result.set_num_rejected(ingest.num_rejected);
  result.set_num_heldout(static_cast<int64_t>(order_.heldout.size()));
  result.set_num_documents(static_cast<int64_t>(order_.training.order.size()));
  result.set_num_heldout_overlaps(static_cast<int64_t>(order_.overlaps.size()));
  result.set_num_heldout_contained(std::ranges::count_if(
      order_.overlaps, [](const HeldoutOverlap& overlap) { return overlap.containment > 0; }));
  const HeldoutResidue residue = SumRuns(order_.heldout_runs);
  result.set_num_heldout_mostly_shared(residue.num_mostly_shared);
  result.set_heldout_shared_runs(residue.share());
  AddContamination(contamination, &result);
  result.set_num_exact_duplicates(num_exact_duplicates_);
  result.set_num_near_duplicates(num_near_duplicates_);
  result.set_num_duplicates(num_exact_duplicates_ + num_near_duplicates_);
  result.set_num_tokens(dataset.num_tokens);
  result.set_num_instances(dataset.num_instances);
  for (const auto& [reason, count] : ingest.rejects) {
    v1::RejectCount* reject = result.add_rejects();
    reject->set_reason(reason);
    reject->set_count(count);
  }
  result.set_recall_at_k(neighbors_->recall_at_k);
  result.set_adjacent_cosine(ordering.value("adjacent_cosine", 0.0));
  result.set_random_adjacent_cosine(ordering.value("random_adjacent_cosine", 0.0));
  for (v1::DomainSummary& domain : LargestDomains(std::move(domains), kMaxDomains)) {
    *result.add_domains() = std::move(domain);
  }
  return result;
}

absl::StatusOr<v1::JobResult> JobRun::Run() {
  RETURN_IF_ERROR(RunIngest());
  RETURN_IF_ERROR(RunTokenize());
  RETURN_IF_ERROR(RunEmbed());
  RETURN_IF_ERROR(RunNeighbors());
  RETURN_IF_ERROR(RunDeduplicate());
  RETURN_IF_ERROR(RunOrder());
  RETURN_IF_ERROR(RunPack());
  return Summarize();
}

}  // namespace

const std::vector<std::string>& StageNames() {
  static const auto* const names = new std::vector<std::string>{
      "ingest", "tokenize", "embed", "neighbors", "deduplicate", "order", "pack"};
  return *names;
}

absl::StatusOr<v1::JobResult> RunJob(const v1::CorpusSpec& resolved, StageStore* store,
                                     const JobHooks& hooks) {
  const absl::Cleanup restore = [before = RetrievalThreads()] { SetRetrievalThreads(before); };
  SetRetrievalThreads(resolved.num_threads());
  return JobRun(resolved, store, hooks).Run();
}

}  // namespace braid
