#include "pipeline/corpus/corpus_description.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/field_digest.h"
#include "base/status_macros.h"
#include "pipeline/corpus/corpus_reader.h"
#include "pipeline/corpus/corpus_spec.h"

namespace braid {
namespace {

// Keeps the response well below the message limit of gRPC.
constexpr size_t kMaxDomains = 16384;
constexpr int64_t kDocumentsPerReport = 256;
constexpr int64_t kBytesPerReport = int64_t{1} << 20;

// Returns the paths and settings with which ingest would read the corpus.
absl::StatusOr<v1::CorpusSpec> Resolve(const v1::DescribeCorpusRequest& request) {
  if (request.long_document_bytes() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("long_document_bytes: got ", request.long_document_bytes(),
                     ", expected 0 (no document counts as long) or more"));
  }
  v1::CorpusSpec spec;
  *spec.mutable_paths() = request.paths();
  *spec.mutable_ingest() = request.ingest();
  spec.mutable_ingest()->clear_split_bytes();
  return ResolveCorpusSpec(spec);
}

// Accumulates the description.
class DocumentCounts {
 public:
  // `long_bytes`: long_document_bytes of the request.
  explicit DocumentCounts(int64_t long_bytes) : long_bytes_(long_bytes) {}

  absl::Status Add(const Document& document) {
    v1::CorpusDomain& domain = domains_[document.domain];
    if (domains_.size() > kMaxDomains) return TooManyDomains();
    const auto bytes = static_cast<int64_t>(document.text.size());
    domain.set_num_documents(domain.num_documents() + 1);
    domain.set_num_bytes(domain.num_bytes() + bytes);
    total_.set_num_documents(total_.num_documents() + 1);
    total_.set_num_bytes(total_.num_bytes() + bytes);
    if (document.has_domain_field) total_.set_num_field_documents(num_field_documents() + 1);
    for (const auto* field : {&document.id, &document.domain, &document.text}) digest_.Add(*field);
    if (long_bytes_ == 0 || bytes <= long_bytes_) return absl::OkStatus();
    total_.set_num_long_documents(total_.num_long_documents() + 1);
    total_.set_num_long_bytes(total_.num_long_bytes() + bytes);
    return absl::OkStatus();
  }

  v1::CorpusDescription Description(const std::map<std::string, int64_t>& rejects) const {
    v1::CorpusDescription description = total_;
    for (const auto& [name, counts] : domains_) {
      v1::CorpusDomain* domain = description.add_domains();
      *domain = counts;
      domain->set_name(name);
    }
    const bool all_have_field = num_field_documents() == num_documents();
    description.set_domain_source(all_have_field ? v1::DOMAIN_FROM_FIELD : v1::DOMAIN_FROM_PATH);
    description.set_digest(digest_.Hex());
    for (const auto& [reason, count] : rejects) {
      v1::RejectCount* reject = description.add_rejects();
      reject->set_reason(reason);
      reject->set_count(count);
    }
    return description;
  }

  int64_t num_documents() const { return total_.num_documents(); }
  int64_t num_bytes() const { return total_.num_bytes(); }

 private:
  int64_t num_field_documents() const { return total_.num_field_documents(); }

  absl::Status TooManyDomains() const {
    const bool mostly_fields = 2 * num_field_documents() > num_documents();
    return absl::InvalidArgumentError(absl::StrCat(
        "corpus: got more than ", kMaxDomains, " domains, expected at most that; they come from ",
        mostly_fields
            ? "a field of the records: set ingest.domain_field to a field that distinguishes kinds "
              "of "
              "text, or to one that no record has"
            : "the names of files and sub-directories of the given paths: give their parent "
              "directory "
              "as one path, or set ingest.domain_field to a field that distinguishes kinds of text",
        "; a job with pack.domain_clusters needs neither"));
  }

  const int64_t long_bytes_;
  std::map<std::string, v1::CorpusDomain> domains_;
  v1::CorpusDescription total_;  // without names
  FieldDigest digest_;
};

// Counts all documents.
absl::Status Count(CorpusReader& reader, const ReadProgress& progress, DocumentCounts* counts) {
  Document document;
  std::vector<Reject> rejects;
  int64_t reported_bytes = 0;
  RETURN_IF_ERROR(progress(0, reader.total_bytes()));
  while (true) {
    ASSIGN_OR_RETURN(const CorpusStep step, reader.Next(&document, &rejects));
    rejects.clear();
    if (step == CorpusStep::kEnd) return progress(reader.total_bytes(), reader.total_bytes());
    if (step == CorpusStep::kDocument) RETURN_IF_ERROR(counts->Add(document));
    if (step == CorpusStep::kNoneYet || counts->num_documents() % kDocumentsPerReport == 0 ||
        counts->num_bytes() - reported_bytes >= kBytesPerReport) {
      reported_bytes = counts->num_bytes();
      reader.TakeIdHashes();  // not needed, because a description is never resumed
      RETURN_IF_ERROR(progress(reader.bytes_read(), reader.total_bytes()));
    }
  }
}

}  // namespace

absl::StatusOr<v1::CorpusDescription> DescribeCorpus(const v1::DescribeCorpusRequest& request,
                                                     const ReadProgress& progress) {
  ASSIGN_OR_RETURN(const v1::CorpusSpec resolved, Resolve(request));
  const std::vector<std::string> paths(resolved.paths().begin(), resolved.paths().end());
  ASSIGN_OR_RETURN(const auto reader,
                   CorpusReader::Open(paths, resolved.ingest(), [&] { return progress(0, 0); }));
  DocumentCounts counts(request.long_document_bytes());
  RETURN_IF_ERROR(Count(*reader, progress, &counts));
  v1::CorpusDescription description = counts.Description(reader->reject_counts());
  description.set_num_filtered(reader->num_filtered());
  for (const std::string& note : reader->Notes()) description.add_notes(note);
  return description;
}

}  // namespace braid
