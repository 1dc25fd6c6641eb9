// Corpus files as the documents of an evaluation.
#ifndef BRAID_CLIENT_CORPUS_DOCUMENTS_H_
#define BRAID_CLIENT_CORPUS_DOCUMENTS_H_

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "evaluation/document_reader.h"

namespace braid {

// A DocumentReader: files and directories as a corpus job reads them with its defaults
// (docs/corpus.md). Errors are those of CorpusReader; a corpus without a document is one.
absl::StatusOr<ReadSummary> ReadCorpusDocuments(std::span<const std::string> paths,
                                                const TakeDocument& take);

}  // namespace braid

#endif  // BRAID_CLIENT_CORPUS_DOCUMENTS_H_
