// How the description of a corpus looks on a terminal.
#ifndef BRAID_CLIENT_TERMINAL_CORPUS_TABLE_H_
#define BRAID_CLIENT_TERMINAL_CORPUS_TABLE_H_

#include <cstdint>
#include <ostream>

#include "braid/v1/pipeline.pb.h"

namespace braid {

// Rows are domains, then all of them; below, where the names come from, the long documents where
// `long_document_bytes` says what is long, and the records left out by reason.
void PrintCorpus(const v1::CorpusDescription& corpus, int64_t long_document_bytes,
                 std::ostream& out);

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_CORPUS_TABLE_H_
