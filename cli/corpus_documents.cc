#include "cli/corpus_documents.h"

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "pipeline/corpus/corpus_reader.h"

namespace braid {
namespace {

constexpr size_t kRejectsShown = 10;

std::string Describe(const Reject& reject) {
  return absl::StrCat(reject.file, ", byte ", reject.offset, ": ", reject.reason,
                      reject.detail.empty() ? "" : ": ", reject.detail);
}

void Note(std::vector<Reject>* rejects, ReadSummary* summary) {
  for (const Reject& reject : *rejects) {
    if (summary->rejected.size() < kRejectsShown) summary->rejected.push_back(Describe(reject));
  }
  rejects->clear();
}

}  // namespace

absl::StatusOr<ReadSummary> ReadCorpusDocuments(std::span<const std::string> paths,
                                                const TakeDocument& take) {
  ASSIGN_OR_RETURN(const auto reader, CorpusReader::OpenText(paths));
  ReadSummary summary;
  Document document;
  std::vector<Reject> rejects;
  while (true) {
    ASSIGN_OR_RETURN(const CorpusStep step, reader->Next(&document, &rejects));
    Note(&rejects, &summary);
    if (step == CorpusStep::kEnd) break;
    if (step == CorpusStep::kDocument) take(document.domain, document.text);
  }
  summary.num_documents = reader->num_accepted();
  summary.num_rejected = reader->num_rejected();
  return summary;
}

}  // namespace braid
