// Reads corpus files as the documents of an evaluation.
#ifndef BRAID_CLI_CORPUS_DOCUMENTS_H_
#define BRAID_CLI_CORPUS_DOCUMENTS_H_

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "evaluation/document_reader.h"

namespace braid {

// Implements DocumentReader: reads files and directories as a corpus job with default settings does
// (docs/corpus.md). Errors are those of CorpusReader::OpenText and Next, including a corpus without
// documents.
absl::StatusOr<ReadSummary> ReadCorpusDocuments(std::span<const std::string> paths,
                                                const TakeDocument& take);

}  // namespace braid

#endif  // BRAID_CLI_CORPUS_DOCUMENTS_H_
