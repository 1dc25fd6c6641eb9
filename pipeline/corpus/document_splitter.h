// Splits long documents at boundaries of definitions, paragraphs, lines and words.
#ifndef BRAID_PIPELINE_CORPUS_DOCUMENT_SPLITTER_H_
#define BRAID_PIPELINE_CORPUS_DOCUMENT_SPLITTER_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace braid {

// Splits `text` (valid UTF-8) and returns its pieces in order.
//
// Algorithm: with the target length = text length / number of pieces, choose each cut between half
// the target and the limit. The best kind of cut wins, and among equal kinds the one nearest to the
// target: blank line before an unindented line (a definition, a paragraph), blank line, end of line
// before an unindented line, end of line, space, any code point. Guarantees: the concatenated
// pieces equal `text`; each has at most max(split_bytes, 4) bytes; none starts inside a code point.
// Returns no piece for an empty text, and one piece for a text of at most split_bytes and for
// split_bytes <= 0.
std::vector<std::string_view> SplitDocument(std::string_view text, int64_t split_bytes);

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_DOCUMENT_SPLITTER_H_
