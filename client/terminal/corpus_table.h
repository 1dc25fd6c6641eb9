// The description of a corpus as a table for a terminal.
#ifndef BRAID_CLIENT_TERMINAL_CORPUS_TABLE_H_
#define BRAID_CLIENT_TERMINAL_CORPUS_TABLE_H_

#include <cstdint>
#include <ostream>

#include "braid/v1/corpus.pb.h"

namespace braid {

// Prints one row per domain and a total, followed by the source of the domains, the long documents
// when `long_document_bytes` is positive, the rejected records by reason, and the notes.
void PrintCorpus(const v1::CorpusDescription& corpus, int64_t long_document_bytes,
                 std::ostream& out);

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_CORPUS_TABLE_H_
