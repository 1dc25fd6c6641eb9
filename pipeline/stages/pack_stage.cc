#include "pipeline/stages/pack_stage.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "formats/contamination.h"
#include "formats/indexed_dataset.h"
#include "formats/npy.h"
#include "formats/packed_dataset.h"
#include "formats/tokenizer.h"
#include "pipeline/corpus/corpus_spec.h"
#include "pipeline/ordering/heldout_order.h"
#include "pipeline/ordering/heldout_split.h"
#include "pipeline/ordering/instance_layout.h"
#include "pipeline/ordering/ordering_report.h"
#include "pipeline/ordering/packing.h"
#include "pipeline/stages/document_domains.h"
#include "pipeline/stages/domain_summary.h"
#include "pipeline/stages/provenance.h"
#include "pipeline/store/resume_point.h"
#include "pipeline/store/stage_key.h"

namespace braid {
namespace {

constexpr int32_t kPackFormatVersion = 3;
constexpr int64_t kInstancesPerReport = 256;
constexpr size_t kPackDocumentsPerReport = 1024;
constexpr int64_t kTextBytesPerToken = 4;  // approximately
constexpr int64_t kShortestSequence = 2;   // that pack.sequence_length may be
constexpr char kHeldoutStep[] = "heldout";
constexpr int64_t kMinHeldoutTokens = 2;  // one input and one target

// The instances as they are stored.
struct PackedInstances {
  std::vector<ProvenanceSpan> spans;  // sorted by (instance, instance_offset)
  int64_t num_instances = 0;
  int64_t num_tokens = 0;
};

// Writes the indexed datasets: the shuffled training instances and the held-out windows.
class DatasetPacker {
 public:
  DatasetPacker(const PackInputs& inputs, const v1::CorpusSpec& resolved,
                const DocumentVectors& embeddings, const DocumentDomains& domains,
                const IndexedDataset& tokens, const Tokenizer& tokenizer,
                const ProgressCallback& progress, StageWriter* stage)
      : inputs_(inputs),
        resolved_(resolved),
        embeddings_(embeddings),
        domains_(domains),
        tokens_(tokens),
        tokenizer_(tokenizer),
        progress_(progress),
        stage_(stage) {}

  // Writes instances.bin/.idx, unless an earlier attempt did.
  absl::StatusOr<PackedInstances> PackInstances();
  // Writes heldout/ and returns the domains that have windows, sorted.
  absl::StatusOr<std::vector<std::string>> PackHeldout();

 private:
  std::filesystem::path Path(std::string_view name) const { return stage_->directory() / name; }
  int64_t num_documents() const {
    return static_cast<int64_t>(inputs_.order.training.order.size());
  }
  std::vector<int32_t> LengthsOf(std::span<const uint32_t> order) const;
  std::vector<uint32_t> PackingOrder() const;
  absl::StatusOr<InstanceLayout> LayOut(std::span<const uint32_t> order) const;
  absl::Status StoreInstances(const PackedInstances& packed);
  void AppendTokens(const ProvenanceSpan& span, std::vector<int32_t>* instance) const;
  absl::StatusOr<int64_t> PackDomain(std::vector<uint32_t> documents, const std::string& name);

  const PackInputs& inputs_;
  const v1::CorpusSpec& resolved_;
  const DocumentVectors& embeddings_;
  const DocumentDomains& domains_;
  const IndexedDataset& tokens_;
  const Tokenizer& tokenizer_;
  const ProgressCallback& progress_;
  StageWriter* const stage_;
};

// Returns the tokens of each document without EOS.
std::vector<int32_t> DatasetPacker::LengthsOf(std::span<const uint32_t> order) const {
  std::vector<int32_t> lengths;
  lengths.reserve(order.size());
  for (const uint32_t document : order) {
    lengths.push_back(static_cast<int32_t>(tokens_.sequence_length(document)));
  }
  return lengths;
}

// Returns the training documents in the order in which they are packed.
std::vector<uint32_t> DatasetPacker::PackingOrder() const {
  const std::vector<uint32_t>& order = inputs_.order.training.order;
  const int64_t runs = RunsPerInstance(resolved_);
  if (runs == 1) return order;
  const int64_t instance_tokens = int64_t{resolved_.pack().sequence_length()} + 1;
  return ShuffleRuns(order, LengthsOf(order), (instance_tokens + runs - 1) / runs,
                     resolved_.seed());
}

absl::StatusOr<InstanceLayout> DatasetPacker::LayOut(std::span<const uint32_t> order) const {
  InstanceLayout layout(order, LengthsOf(order), resolved_.pack().sequence_length());
  const int64_t got = layout.num_tokens();
  const int64_t needed = int64_t{resolved_.pack().sequence_length()} + 1;
  if (got >= needed) return layout;
  return absl::FailedPreconditionError(absl::StrCat(
      "pack.sequence_length ", resolved_.pack().sequence_length(), " exceeds the corpus: got ", got,
      " training tokens, expected at least ", needed, " for one instance; ",
      got > kShortestSequence
          ? absl::StrCat("lower pack.sequence_length to at most ", got - 1, " or add documents")
          : "add documents"));
}

absl::StatusOr<PackedInstances> DatasetPacker::PackInstances() {
  const std::vector<uint32_t> order = PackingOrder();
  ASSIGN_OR_RETURN(const InstanceLayout layout, LayOut(order));
  PackedInstances packed;
  packed.num_instances = layout.num_instances();
  packed.num_tokens = layout.num_tokens();
  uint32_t stored = 0;
  for (const uint32_t instance : InstanceShuffle(packed.num_instances, resolved_.seed())) {
    layout.AppendSpans(instance, stored++, &packed.spans);
  }
  if (!stage_->Has("instances.bin")) RETURN_IF_ERROR(StoreInstances(packed));
  return packed;
}

// Appends the tokens of a span. EOS, which is not stored with the document, is its last token.
void DatasetPacker::AppendTokens(const ProvenanceSpan& span, std::vector<int32_t>* instance) const {
  const int64_t own = tokens_.sequence_length(span.document) - span.document_offset;
  tokens_.AppendRange(span.document, span.document_offset, std::min<int64_t>(span.length, own),
                      instance);
  if (span.length > own) instance->push_back(tokenizer_.eos_id());
}

absl::Status DatasetPacker::StoreInstances(const PackedInstances& packed) {
  const ResumePoint& left = stage_->resume_point();
  ASSIGN_OR_RETURN(const auto writer, IndexedDatasetWriter::Resume(
                                          Path("instances"), tokenizer_.vocab_size(), left.files));
  auto span = std::ranges::lower_bound(packed.spans, static_cast<uint32_t>(left.position), {},
                                       &ProvenanceSpan::instance);
  std::vector<int32_t> tokens;
  bool saved = false;
  for (int64_t i = left.position; i < packed.num_instances; ++i) {
    if (saved || i % kInstancesPerReport == 0) {
      RETURN_IF_ERROR(progress_(i * num_documents() / packed.num_instances, num_documents()));
    }
    tokens.clear();
    for (; span != packed.spans.end() && span->instance == i; ++span) AppendTokens(*span, &tokens);
    RETURN_IF_ERROR(writer->AddSequence(tokens));
    writer->EndDocument();
    saved = stage_->CountWork(kTextBytesPerToken * static_cast<int64_t>(tokens.size()));
    if (saved) {
      ResumePoint point{.position = i + 1};
      RETURN_IF_ERROR(writer->Sync(&point.files));
      RETURN_IF_ERROR(stage_->SaveResumePoint(std::move(point)));
    }
  }
  ASSIGN_OR_RETURN(const std::vector<FileSummary> files, writer->Commit());
  stage_->Add(files, packed.num_instances);
  return stage_->SaveResumePoint({.step = kHeldoutStep});
}

// Writes the held-out windows of a domain and returns the number of tokens written. A last window
// that is too short to have a target is omitted, and so are the files of a domain without windows.
absl::StatusOr<int64_t> DatasetPacker::PackDomain(std::vector<uint32_t> documents,
                                                  const std::string& name) {
  if (resolved_.pack().heldout_by_similarity()) {
    ASSIGN_OR_RETURN(documents, OrderAmongThemselves(
                                    embeddings_, std::move(documents), inputs_.neighbors.k,
                                    [&] { return progress_(num_documents(), num_documents()); }));
  }
  ASSIGN_OR_RETURN(const auto writer,
                   IndexedDatasetWriter::Create(Path("heldout") / name, tokenizer_.vocab_size()));
  Packer packer(resolved_.pack().sequence_length(), tokenizer_.eos_id(),
                [&](std::span<const int32_t> tokens, std::span<const ProvenanceSpan>) {
                  if (static_cast<int64_t>(tokens.size()) < kMinHeldoutTokens) {
                    return absl::OkStatus();
                  }
                  const absl::Status status = writer->AddSequence(tokens);
                  writer->EndDocument();
                  return status;
                });
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < documents.size(); ++i) {
    if (i % kPackDocumentsPerReport == 0)
      RETURN_IF_ERROR(progress_(num_documents(), num_documents()));
    tokens_.ReadInto(documents[i], &tokens);
    RETURN_IF_ERROR(packer.Add(documents[i], tokens));
  }
  RETURN_IF_ERROR(packer.Finish());
  const int64_t num_windows = writer->num_sequences();
  if (num_windows == 0) return 0;
  ASSIGN_OR_RETURN(const std::vector<FileSummary> files, writer->Commit());
  stage_->Add(files, num_windows, "heldout");
  return writer->num_tokens();
}

absl::StatusOr<std::vector<std::string>> DatasetPacker::PackHeldout() {
  RETURN_IF_ERROR(MakeDirectories(Path("heldout")));
  const std::vector<std::string>& names = domains_.names;
  std::vector<std::vector<uint32_t>> by_domain(names.size());
  for (const uint32_t document : inputs_.order.heldout) {
    by_domain[static_cast<size_t>(domains_.numbers[document])].push_back(document);
  }
  std::vector<std::string> present;
  for (size_t domain = 0; domain < names.size(); ++domain) {
    if (by_domain[domain].empty()) continue;
    const std::string prefix = "heldout/" + names[domain];
    if (!stage_->Has(prefix + ".bin")) {
      ASSIGN_OR_RETURN(const int64_t num_tokens,
                       PackDomain(std::move(by_domain[domain]), names[domain]));
      if (stage_->CountWork(kTextBytesPerToken * num_tokens)) {
        const auto position = static_cast<int64_t>(domain) + 1;
        RETURN_IF_ERROR(stage_->SaveResumePoint({.step = kHeldoutStep, .position = position}));
      }
    }
    if (stage_->Has(prefix + ".bin")) present.push_back(names[domain]);
  }
  return present;
}

absl::Status CopyTokenizer(const std::filesystem::path& tokenize_directory, StageWriter* stage) {
  ASSIGN_OR_RETURN(const std::string model, ReadFile(tokenize_directory / "tokenizer.model"));
  return stage->AddText("tokenizer.model", model, 1);
}

absl::Status CopyContamination(const std::filesystem::path& deduplicate_directory,
                               StageWriter* stage) {
  ASSIGN_OR_RETURN(const auto contamination, ReadContamination(deduplicate_directory));
  if (!contamination.has_value()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<FileSummary> files,
                   WriteContamination(stage->directory(), *contamination));
  stage->Add(files, contamination->num_documents);
  return absl::OkStatus();
}

absl::Status StoreProvenance(const DocumentStore& documents, std::span<const ProvenanceSpan> spans,
                             StageWriter* stage) {
  const std::filesystem::path directory = stage->directory() / "provenance";
  RETURN_IF_ERROR(MakeDirectories(directory));
  std::vector<std::string> ids;
  ids.reserve(static_cast<size_t>(documents.size()));
  for (int64_t i = 0; i < documents.size(); ++i) ids.emplace_back(documents.id(i));
  ASSIGN_OR_RETURN(const std::vector<FileSummary> files, WriteProvenance(directory, spans, ids));
  stage->Add(files, static_cast<int64_t>(spans.size()), "provenance");
  return absl::OkStatus();
}

absl::Status StoreOrderingReport(const PackInputs& inputs, const v1::CorpusSpec& resolved,
                                 const DocumentVectors& embeddings, const DocumentDomains& domains,
                                 std::span<const ProvenanceSpan> spans,
                                 const ProgressCallback& progress, StageWriter* stage) {
  const OrderingReportInput input = {
      .order_name = v1::OrderMode_Name(resolved.order()),
      .order = inputs.order.training,
      .embeddings = embeddings.values,
      .dimension = embeddings.d,
      .domains = domains.numbers,
      .spans = spans,
      .sequence_length = resolved.pack().sequence_length(),
      .recall_at_k = inputs.neighbors.recall_at_k,
      .k = inputs.neighbors.k,
      .seed = resolved.seed(),
  };
  const auto n = static_cast<int64_t>(inputs.order.training.order.size());
  ASSIGN_OR_RETURN(const OrderingReport report,
                   MeasureOrdering(input, [&] { return progress(n, n); }));
  return stage->AddText("ordering_report.json", ToJson(report), 1);
}

absl::StatusOr<DocumentDomains> FindDomains(const PackInputs& inputs,
                                            const v1::CorpusSpec& resolved,
                                            const DocumentVectors& embeddings,
                                            const ProgressCallback& progress) {
  const int32_t num_clusters = resolved.pack().domain_clusters();
  if (num_clusters == 0) return RecordedDomains(inputs.documents);
  const std::vector<uint32_t>& training = inputs.order.training.order;
  return ClusterDomains(embeddings, training, num_clusters, resolved.seed(),
                        [&] { return progress(0, static_cast<int64_t>(training.size())); });
}

absl::Status StoreDomains(const PackInputs& inputs, const v1::CorpusSpec& resolved,
                          const DocumentVectors& embeddings, const DocumentDomains& domains,
                          const IndexedDataset& tokens, const ProgressCallback& progress,
                          StageWriter* stage) {
  const std::vector<uint32_t>& training = inputs.order.training.order;
  const auto n = static_cast<int64_t>(training.size());
  const PackedDocuments packed = {
      .domains = domains,
      .training = training,
      .heldout = inputs.order.heldout,
      .embeddings = embeddings,
      .num_tokens = [&](uint32_t document) { return tokens.sequence_length(document) + 1; },
      .source =
          [&](uint32_t document) {
            return SourceDocument(inputs.documents.id(document), resolved.ingest().split_bytes());
          },
  };
  ASSIGN_OR_RETURN(const auto summaries, SummarizeDomains(packed, [&] { return progress(n, n); }));
  RETURN_IF_ERROR(stage->AddText(kDomainSummariesName, DomainSummariesJson(summaries),
                                 static_cast<int64_t>(summaries.size())));
  if (resolved.pack().domain_clusters() == 0) return absl::OkStatus();
  return StoreDocumentDomains(domains, stage);
}

absl::Status DescribeDataset(const PackInputs& inputs, const v1::CorpusSpec& resolved,
                             const std::string& key, const Tokenizer& tokenizer,
                             const PackedInstances& packed,
                             const std::vector<std::string>& heldout_domains, StageWriter* stage) {
  const DatasetInfo info = {
      .name = resolved.name(),
      .key = key,
      .order = v1::OrderMode_Name(resolved.order()),
      .sequence_length = resolved.pack().sequence_length(),
      .vocab_size = tokenizer.vocab_size(),
      .eos_id = tokenizer.eos_id(),
      .num_instances = packed.num_instances,
      .num_tokens = packed.num_tokens,
      .num_documents = static_cast<int64_t>(inputs.order.training.order.size()),
      .num_heldout_documents = static_cast<int64_t>(inputs.order.heldout.size()),
      .domains = heldout_domains,
      .domain_clusters = resolved.pack().domain_clusters(),
      .seed = resolved.seed(),
      .begin_with_bos = resolved.tokenizer().begin_with_bos(),
      .runs_per_instance = RunsPerInstance(resolved),
  };
  ASSIGN_OR_RETURN(const FileSummary summary, WriteDatasetInfo(stage->directory(), info));
  stage->Add(summary, 1);
  return absl::OkStatus();
}

}  // namespace

std::string PackKey(const v1::CorpusSpec& resolved, const std::string& tokenize_key,
                    const std::string& order_key) {
  StageKey key = StageKey("pack", kPackFormatVersion)
                     .Add("tokenize", tokenize_key)
                     .Add("order", order_key)
                     .Add("name", resolved.name())
                     .Add("sequence_length", resolved.pack().sequence_length())
                     .Add("domain_clusters", resolved.pack().domain_clusters())
                     .Add("seed", static_cast<uint64_t>(resolved.seed()));
  // Absent from the keys of earlier versions, which had no such settings.
  if (resolved.pack().heldout_by_similarity()) key.Add("heldout_by_similarity", true);
  if (RunsPerInstance(resolved) > 1) key.Add("runs_per_instance", RunsPerInstance(resolved));
  return key.Hex();
}

absl::Status Pack(const PackInputs& inputs, const v1::CorpusSpec& resolved, const std::string& key,
                  const ProgressCallback& progress, StageWriter* stage) {
  ASSIGN_OR_RETURN(const auto tokenizer,
                   Tokenizer::Load(inputs.tokenize_directory / "tokenizer.model"));
  ASSIGN_OR_RETURN(const IndexedDataset tokens,
                   IndexedDataset::Open(inputs.tokenize_directory / "tokens"));
  ASSIGN_OR_RETURN(const auto vectors,
                   NpyArray<float>::Open(inputs.embed_directory / "embeddings.npy"));
  const DocumentVectors embeddings{vectors.values(), vectors.num_rows(),
                                   static_cast<int32_t>(vectors.row_size())};
  ASSIGN_OR_RETURN(const DocumentDomains domains,
                   FindDomains(inputs, resolved, embeddings, progress));
  DatasetPacker packer(inputs, resolved, embeddings, domains, tokens, *tokenizer, progress, stage);
  ASSIGN_OR_RETURN(const PackedInstances packed, packer.PackInstances());
  ASSIGN_OR_RETURN(const std::vector<std::string> heldout_domains, packer.PackHeldout());
  RETURN_IF_ERROR(CopyTokenizer(inputs.tokenize_directory, stage));
  RETURN_IF_ERROR(CopyContamination(inputs.deduplicate_directory, stage));
  RETURN_IF_ERROR(StoreProvenance(inputs.documents, packed.spans, stage));
  RETURN_IF_ERROR(
      StoreOrderingReport(inputs, resolved, embeddings, domains, packed.spans, progress, stage));
  RETURN_IF_ERROR(StoreDomains(inputs, resolved, embeddings, domains, tokens, progress, stage));
  return DescribeDataset(inputs, resolved, key, *tokenizer, packed, heldout_domains, stage);
}

}  // namespace braid
