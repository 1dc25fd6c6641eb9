#include "pipeline/jobs/job_explanation.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest_word.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "braid/v1/pipeline.pb.h"
#include "pipeline/ordering/deduplicate.h"
#include "pipeline/ordering/heldout_split.h"
#include "pipeline/stages/decontamination.h"
#include "pipeline/stages/embed_stage.h"
#include "pipeline/store/verified_stage.h"
#include "proto/state_name.h"

namespace braid {
namespace {

// The number of ids on each side of an unknown one that are compared with it for suggestions.
constexpr int64_t kIdsAround = 20'000;
constexpr size_t kMaxSuggestions = 3;

// Returns the directory of the output of a stage.
absl::StatusOr<std::filesystem::path> Output(const v1::Job& job, const StageStore& store,
                                             const std::string& stage) {
  for (const v1::StageProgress& progress : job.stages()) {
    if (progress.stage() != stage || progress.key().size() != 32) continue;
    const std::filesystem::path directory = store.DirectoryOf(stage, progress.key());
    std::error_code error;
    if (std::filesystem::is_directory(directory, error)) return directory;
    return absl::NotFoundError(
        absl::StrCat(directory.string(), ": the output of stage ", stage, " of ", job.id(),
                     " was deleted; submit the same corpus again to rebuild it"));
  }
  return absl::FailedPreconditionError(absl::StrCat(job.id(), " has no recorded output of stage ",
                                                    stage, "; submit the same corpus again"));
}

// Returns at most max_bytes of a text, cut between characters.
std::string CutText(std::string text, int64_t max_bytes) {
  text.resize(Utf8PrefixLength(text, static_cast<size_t>(max_bytes)));
  return text;
}

// Returns "FILE" of an id "FILE:OFFSET", else "".
std::string_view FileOfId(std::string_view id) {
  const size_t colon = id.rfind(':');
  if (colon == id.npos || colon == 0 || colon + 1 == id.size()) return {};
  const bool number = id.find_first_not_of("0123456789", colon + 1) == id.npos;
  return number ? id.substr(0, colon) : std::string_view();
}

bool NamesFile(std::string_view path, std::string_view name) {
  return path == name || path.ends_with("/" + std::string(name));
}

// Returns whether a line of rejects.jsonl is the record with this id, or at this FILE:OFFSET.
bool IsReject(const nlohmann::json& reject, const std::string& id) {
  if (!reject.is_object()) return false;
  if (!id.empty() && reject.value("id", std::string()) == id) return true;
  const std::string_view file = FileOfId(id);
  if (file.empty()) return false;
  return std::to_string(reject.value("offset", int64_t{-1})) == id.substr(file.size() + 1) &&
         NamesFile(reject.value("file", std::string()), file);
}

// Files whose size is that of the corpus. They are verified only by the requests that read them.
constexpr std::string_view kTexts = "texts.bin", kTokens = "tokens.bin",
                           kEmbeddings = "embeddings.npy", kInstances = "instances.bin";

// Verifies the other files of a stage output, except for the windows of held-out text.
absl::Status VerifyTables(const std::filesystem::path& directory) {
  return VerifyStageFiles(directory, [](std::string_view name) {
    return name != kTexts && name != kTokens && name != kEmbeddings && name != kInstances &&
           !name.starts_with("heldout/");
  });
}

absl::Status CheckSpans(const Provenance& provenance, const IndexedDataset& instances,
                        const std::filesystem::path& dataset) {
  for (int64_t i = 0; i < instances.num_sequences(); ++i) {
    for (const ProvenanceSpan& span : provenance.Instance(static_cast<uint32_t>(i))) {
      const int64_t end = int64_t{span.instance_offset} + span.length;
      if (span.document < provenance.num_documents() && span.instance_offset >= 0 &&
          span.length > 0 && end <= instances.sequence_length(i)) {
        continue;
      }
      return absl::DataLossError(absl::StrCat(dataset.string(), ": provenance of instance ", i,
                                              " refers to a document or tokens out of range"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCounterparts(const StoredDuplicates& duplicates, const StoredOrder& order,
                               int64_t num_documents, const std::filesystem::path& dataset) {
  bool known = true;
  for (const HeldoutOverlap& overlap : order.overlaps) known &= overlap.heldout < num_documents;
  known &= duplicates.AllBelow(num_documents);
  if (known) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(dataset.string(), ": duplicates or overlaps refer to a document out of range"));
}

}  // namespace

JobExplanation::JobExplanation(v1::CorpusSpec spec, Directories directories,
                               DocumentStore documents, DocumentDomains domains,
                               IndexedDataset tokens, NpyArray<float> embeddings,
                               StoredDuplicates duplicates, StoredOrder order,
                               IndexedDataset instances, Provenance provenance,
                               std::unique_ptr<Tokenizer> tokenizer)
    : spec_(std::move(spec)),
      directories_(std::move(directories)),
      documents_(std::move(documents)),
      domains_(std::move(domains)),
      tokens_(std::move(tokens)),
      embeddings_(std::move(embeddings)),
      duplicates_(std::move(duplicates)),
      order_(std::move(order)),
      instances_(std::move(instances)),
      provenance_(std::move(provenance)),
      tokenizer_(std::move(tokenizer)) {}

absl::StatusOr<JobExplanation> JobExplanation::Open(const v1::Job& job, const StageStore& store) {
  if (job.state() != v1::JOB_SUCCEEDED) {
    return absl::FailedPreconditionError(absl::StrCat(job.id(), " is ", StateName(job.state()),
                                                      ", expected SUCCEEDED; see 'braid status ",
                                                      job.id(), "'"));
  }
  ASSIGN_OR_RETURN(const std::filesystem::path ingest, Output(job, store, "ingest"));
  ASSIGN_OR_RETURN(const std::filesystem::path tokenize, Output(job, store, "tokenize"));
  ASSIGN_OR_RETURN(const std::filesystem::path embed, Output(job, store, "embed"));
  ASSIGN_OR_RETURN(const std::filesystem::path deduplicate, Output(job, store, "deduplicate"));
  ASSIGN_OR_RETURN(const std::filesystem::path order, Output(job, store, "order"));
  ASSIGN_OR_RETURN(const std::filesystem::path dataset, Output(job, store, "pack"));
  for (const auto& directory : {ingest, tokenize, embed, deduplicate, order, dataset}) {
    RETURN_IF_ERROR(VerifyTables(directory));
  }
  ASSIGN_OR_RETURN(DocumentStore documents, DocumentStore::Open(ingest));
  ASSIGN_OR_RETURN(DocumentDomains domains, DomainsOfDataset(job.spec(), documents, dataset));
  ASSIGN_OR_RETURN(IndexedDataset tokens, IndexedDataset::Open(tokenize / "tokens"));
  ASSIGN_OR_RETURN(auto embeddings, NpyArray<float>::Open(embed / "embeddings.npy"));
  ASSIGN_OR_RETURN(StoredDuplicates duplicates, StoredDuplicates::Open(deduplicate));
  ASSIGN_OR_RETURN(StoredOrder stored_order, StoredOrder::Read(order));
  ASSIGN_OR_RETURN(IndexedDataset instances, IndexedDataset::Open(dataset / "instances"));
  ASSIGN_OR_RETURN(Provenance provenance, Provenance::Open(dataset / "provenance"));
  ASSIGN_OR_RETURN(auto tokenizer, Tokenizer::Load(dataset / "tokenizer.model"));
  if (provenance.num_documents() != documents.size() ||
      provenance.num_instances() != instances.num_sequences() ||
      tokens.num_sequences() != documents.size() || embeddings.num_rows() != documents.size()) {
    return absl::DataLossError(absl::StrCat(
        dataset.string(), ": provenance does not match the documents of ", ingest.string()));
  }
  // Checked once, so that the functions below can use these numbers as indices.
  RETURN_IF_ERROR(CheckSpans(provenance, instances, dataset));
  RETURN_IF_ERROR(CheckCounterparts(duplicates, stored_order, documents.size(), dataset));
  return JobExplanation(job.spec(), {ingest, embed, deduplicate, dataset}, std::move(documents),
                        std::move(domains), std::move(tokens), std::move(embeddings),
                        std::move(duplicates), std::move(stored_order), std::move(instances),
                        std::move(provenance), std::move(tokenizer));
}

std::string JobExplanation::SourceFile(std::string_view id) const {
  const std::string_view named = FileOfId(SourceDocument(id, spec_.ingest().split_bytes()));
  for (const std::string& path : spec_.paths()) {
    if (!named.empty() && NamesFile(path, named)) return path;
  }
  std::error_code error;
  if (spec_.paths_size() == 1 && std::filesystem::is_regular_file(spec_.paths(0), error)) {
    return spec_.paths(0);
  }
  return std::string(named);
}

std::string JobExplanation::Excerpt(const ProvenanceSpan& span, int64_t max_bytes) const {
  if (max_bytes <= 0) return "";
  // Every token decodes to at least one byte, except for the dummy space of the first one.
  const int64_t length = std::min<int64_t>(span.length, max_bytes + 1);
  std::vector<int32_t> tokens;
  instances_.AppendRange(span.instance, span.instance_offset, length, &tokens);
  return CutText(tokenizer_->Decode(tokens), max_bytes);
}

v1::DocumentSpan JobExplanation::Describe(const ProvenanceSpan& span, int64_t excerpt_bytes) const {
  const std::string id(documents_.id(span.document));
  v1::DocumentSpan described;
  described.set_instance(span.instance);
  described.set_instance_offset(span.instance_offset);
  described.set_document(id);
  described.set_document_number(span.document);
  described.set_document_offset(span.document_offset);
  described.set_length(span.length);
  described.set_domain(domains_.name_of(span.document));
  described.set_source_file(SourceFile(id));
  described.set_excerpt(Excerpt(span, excerpt_bytes));
  return described;
}

absl::StatusOr<v1::InstanceExplanation> JobExplanation::Instance(int64_t instance,
                                                                 int64_t excerpt_bytes) const {
  const int64_t num_instances = provenance_.num_instances();
  if (instance < 0 || instance >= num_instances) {
    return absl::OutOfRangeError(absl::StrCat("instance ", instance, ": got ", instance,
                                              ", expected 0 to ", num_instances - 1,
                                              "; the dataset has ", num_instances, " instances"));
  }
  RETURN_IF_ERROR(VerifyStageFile(directories_.embed, kEmbeddings));
  if (excerpt_bytes > 0) RETURN_IF_ERROR(VerifyStageFile(directories_.dataset, kInstances));
  v1::InstanceExplanation explanation;
  explanation.set_instance(instance);
  explanation.set_num_tokens(instances_.sequence_length(instance));
  std::optional<uint32_t> previous;
  for (const ProvenanceSpan& span : provenance_.Instance(static_cast<uint32_t>(instance))) {
    v1::DocumentSpan* const described = explanation.add_spans();
    *described = Describe(span, excerpt_bytes);
    if (previous.has_value()) {
      described->set_similarity_to_previous(CosineOfRows(embeddings_, *previous, span.document));
    }
    previous = span.document;
  }
  return explanation;
}

absl::StatusOr<v1::ExplainInstancesResponse> JobExplanation::Instances(
    std::span<const int64_t> instances, int64_t excerpt_bytes, int64_t max_bytes,
    const std::function<absl::Status()>& keep_going) const {
  v1::ExplainInstancesResponse response;
  int64_t bytes = 0;
  for (const int64_t instance : instances) {
    RETURN_IF_ERROR(keep_going());
    v1::InstanceExplanation* const added = response.add_instances();
    ASSIGN_OR_RETURN(*added, Instance(instance, excerpt_bytes));
    bytes += static_cast<int64_t>(added->ByteSizeLong());
    if (bytes <= max_bytes) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("instances: the explanations of the first ", response.instances_size(), " of ",
                     instances.size(), " have ", bytes, " bytes, expected at most ", max_bytes,
                     "; lower excerpt_bytes or ask for fewer instances"));
  }
  return response;
}

// Sets the fate of a document that was excluded from training; returns false for other documents.
absl::StatusOr<bool> JobExplanation::SetFate(uint32_t document,
                                             v1::ExplainDocumentResponse* response) const {
  std::optional<uint32_t> counterpart;
  if (const auto pair = duplicates_.Find(document)) {
    response->set_fate(v1::DOCUMENT_DUPLICATE);
    response->set_exact(pair->exact);
    response->set_jaccard(pair->jaccard);
    counterpart = pair->kept;
  } else if (std::ranges::binary_search(order_.heldout, document)) {
    response->set_fate(v1::DOCUMENT_HELD_OUT);
  } else if (const auto overlap =
                 std::ranges::lower_bound(order_.overlaps, document, {}, &HeldoutOverlap::document);
             overlap != order_.overlaps.end() && overlap->document == document) {
    response->set_fate(v1::DOCUMENT_OVERLAPS_HELD_OUT);
    response->set_jaccard(overlap->jaccard);
    response->set_containment(overlap->containment);
    counterpart = overlap->heldout;
  } else {
    return false;
  }
  if (counterpart.has_value()) {
    RETURN_IF_ERROR(VerifyStageFile(directories_.embed, kEmbeddings));
    response->set_counterpart(std::string(documents_.id(*counterpart)));
    response->set_cosine(CosineOfRows(embeddings_, document, *counterpart));
  }
  return true;
}

absl::StatusOr<v1::ExplainDocumentResponse> JobExplanation::Document(const std::string& id,
                                                                     int64_t excerpt_bytes) const {
  const std::optional<uint32_t> found = provenance_.FindDocument(id);
  if (!found.has_value()) {
    ASSIGN_OR_RETURN(const auto reject, Reject(id));
    if (reject.has_value()) return *reject;
    return UnknownDocument(id);
  }
  if (excerpt_bytes > 0) {
    RETURN_IF_ERROR(VerifyStageFile(directories_.ingest, kTexts));
    RETURN_IF_ERROR(VerifyStageFile(directories_.dataset, kInstances));
  }
  const std::string_view text = documents_.text(*found);
  v1::ExplainDocumentResponse response;
  response.set_document(id);
  response.set_document_number(*found);
  response.set_domain(domains_.name_of(*found));
  response.set_source_file(SourceFile(id));
  response.set_num_bytes(static_cast<int64_t>(text.size()));
  response.set_num_tokens(tokens_.sequence_length(*found));
  response.set_excerpt(excerpt_bytes > 0 ? CutText(std::string(text), excerpt_bytes) : "");
  const auto contaminated = FindContaminated(directories_.deduplicate, id);
  if (contaminated.has_value()) {
    response.set_evaluation_text(contaminated->text);
    response.set_shared_words(contaminated->words);
  }
  ASSIGN_OR_RETURN(const bool left_out, SetFate(*found, &response));
  if (left_out) return response;
  if (contaminated.has_value() && !spec_.decontaminate().report_only()) {
    response.set_fate(v1::DOCUMENT_CONTAMINATED);
    return response;
  }
  response.set_fate(v1::DOCUMENT_TRAINED_ON);
  for (const ProvenanceSpan& span : provenance_.Document(*found)) {
    *response.add_spans() = Describe(span, excerpt_bytes);
  }
  return response;
}

absl::StatusOr<std::optional<v1::ExplainDocumentResponse>> JobExplanation::Reject(
    const std::string& id) const {
  std::ifstream rejects(directories_.ingest / "rejects.jsonl", std::ios::binary);
  std::string line;
  while (std::getline(rejects, line)) {
    const nlohmann::json reject = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!IsReject(reject, id)) continue;
    v1::ExplainDocumentResponse response;
    response.set_document(id);
    response.set_document_number(-1);
    response.set_fate(v1::DOCUMENT_REJECTED);
    response.set_source_file(reject.value("file", std::string()));
    response.set_reject_reason(reject.value("reason", std::string()));
    response.set_reject_offset(reject.value("offset", int64_t{0}));
    return response;
  }
  return std::nullopt;
}

// Suggests similar ids from the neighborhood of `id` in the sorted list, where ids with a common
// prefix are adjacent.
absl::Status JobExplanation::UnknownDocument(const std::string& id) const {
  std::vector<std::string> candidates = provenance_.IdsAround(id, kIdsAround);
  std::vector<std::string> similar;
  while (similar.size() < kMaxSuggestions) {
    const std::string nearest = NearestWord(id, candidates);
    if (nearest.empty()) break;
    std::erase(candidates, nearest);
    similar.push_back(absl::StrCat("\"", nearest, "\""));
  }
  const std::string hint =
      similar.empty() ? "an id is that of the input record, or FILE:OFFSET if the record has none"
                      : absl::StrCat("did you mean ", absl::StrJoin(similar, " or "), "?");
  return absl::NotFoundError(
      absl::StrCat("unknown document \"", id, "\": none of ", documents_.size(),
                   " documents or of the rejected records has this id; ", hint));
}

}  // namespace braid
