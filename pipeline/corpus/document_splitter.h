// Cuts long documents at definition, paragraph, line and word boundaries.
#ifndef BRAID_PIPELINE_CORPUS_DOCUMENT_SPLITTER_H_
#define BRAID_PIPELINE_CORPUS_DOCUMENT_SPLITTER_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace braid {

// Pieces of `text` (valid UTF-8) in order; together they are `text`, byte for byte. Each has at
// most max(split_bytes, 4) bytes, none starts inside a code point, and lengths are about equal. Of
// the cuts between half the equal length and the limit the best kind wins, then the most equal one:
// blank line before an unindented line (a definition, a paragraph), blank line, line end before an
// unindented line, line end, space, any code point. Empty text gives no piece; split_bytes <= 0 or
// a short text gives one.
std::vector<std::string_view> SplitDocument(std::string_view text, int64_t split_bytes);

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_DOCUMENT_SPLITTER_H_
