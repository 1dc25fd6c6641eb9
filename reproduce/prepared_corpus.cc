#include "reproduce/prepared_corpus.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/number_text.h"
#include "base/status_macros.h"
#include "braid/v1/pipeline.pb.h"
#include "client/follow.h"
#include "client/repeatable_request_id.h"
#include "client/terminal/tables.h"

namespace braid {
namespace {

CorpusNeeds NeedsOf(const ReproductionPlan& plan, const CorpusSource& source) {
  return {.sequence_length = plan.experiment->sequence_length,
          .tokens_of_run = plan.num_tokens_of_longest_run(),
          .heldout_fraction = source.heldout_fraction,
          .split_bytes = source.corpus.ingest().split_bytes()};
}

absl::StatusOr<v1::CorpusDescription> Describe(PipelineClient& client, const CorpusSource& source,
                                               int64_t long_document_bytes, ProgressBoard& board) {
  v1::DescribeCorpusRequest request;
  for (const std::string& path : source.paths) request.add_paths(path);
  *request.mutable_ingest() = source.corpus.ingest();
  request.set_long_document_bytes(long_document_bytes);
  ASSIGN_OR_RETURN(const v1::CorpusDescription corpus,
                   client.DescribeCorpus(request, [&](const v1::DescribeCorpusEvent& event) {
                     board.Update("read", ProgressOf(event, "bytes"));
                   }));
  board.Finish("read",
               absl::StrFormat("%s, %.2f MB in %s", Counted(corpus.num_documents(), "document"),
                               static_cast<double>(corpus.num_bytes()) / 1e6,
                               Counted(corpus.domains_size(), "domain")));
  return corpus;
}

absl::StatusOr<v1::Job> Prepare(PipelineClient& client, const ReproductionPlan& plan,
                                const CheckedCorpus& corpus, const DatasetDefinition& dataset,
                                ProgressBoard& board) {
  v1::SubmitCorpusRequest request;
  *request.mutable_spec() = PlannedCorpus(plan, corpus.source, dataset);
  // Files of the same names may hold other text by now.
  const std::string text = RepeatableRequestId("reproduce", corpus.description);
  request.set_request_id(RepeatableRequestId(text, request.spec()));
  ASSIGN_OR_RETURN(v1::Job job, CompleteJob(client, request, board));
  board.Finish(job.id(), OrderText(job));
  return job;
}

}  // namespace

absl::StatusOr<CheckedCorpus> CheckSource(PipelineClient& client, const ReproductionPlan& plan,
                                          CorpusSource source, ProgressBoard& board) {
  CheckedCorpus corpus{.source = std::move(source)};
  const int64_t long_bytes = LongDocumentBytes(NeedsOf(plan, corpus.source));
  ASSIGN_OR_RETURN(corpus.description, Describe(client, corpus.source, long_bytes, board));
  corpus.source.num_bytes = corpus.description.num_bytes();
  corpus.source.heldout_fraction = HeldoutFraction(plan, corpus.source.num_bytes);
  const CorpusSummary summary = CorpusSummaryOf(corpus.description);
  const CorpusNeeds needs = NeedsOf(plan, corpus.source);
  const std::vector<CorpusFinding> findings = CheckCorpus(summary, needs);
  RETURN_IF_ERROR(CorpusStatus(findings));
  for (const CorpusFinding& finding : findings) corpus.notes.push_back(finding.message);
  if (ChooseDomainSource(summary, needs) == DomainSource::kClusters) {
    corpus.source.domain_clusters = kNumClusters;
  }
  return corpus;
}

absl::StatusOr<PreparedCorpus> PrepareDatasets(PipelineClient& client, const ReproductionPlan& plan,
                                               const CheckedCorpus& corpus, ProgressBoard& board) {
  PreparedCorpus prepared;
  for (const DatasetDefinition& dataset : plan.experiment->datasets) {
    // Only arms of its own train on such a dataset.
    if (dataset.runs_per_instance > 1 && std::ranges::none_of(plan.runs, [&](const auto& run) {
          return run.arm.dataset == dataset.name;
        })) {
      continue;
    }
    ASSIGN_OR_RETURN(const v1::Job job, Prepare(client, plan, corpus, dataset, board));
    prepared.dataset_dirs[dataset.name] = job.result().dataset_dir();
    if (prepared.dataset_dirs.size() > 1) continue;
    for (const v1::DomainSummary& domain : job.result().domains()) {
      prepared.domains.push_back({domain.name(), domain.num_tokens(), domain.similarity(),
                                  domain.num_heldout_tokens(), domain.num_heldout_sources()});
      if (domain.num_heldout_documents() > 0) ++prepared.num_heldout_domains;
    }
  }
  prepared.notes = HeldoutNotes(prepared.domains, plan.experiment->sequence_length);
  return prepared;
}

}  // namespace braid
