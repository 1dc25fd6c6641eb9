// Plain text of a manual page in roff (man or mdoc macros), without running groff.
#ifndef BRAID_PIPELINE_CORPUS_MANUAL_PAGE_TEXT_H_
#define BRAID_PIPELINE_CORPUS_MANUAL_PAGE_TEXT_H_

#include <string>
#include <string_view>

namespace braid {

// Macros become paragraphs, headings and words; fonts, sizes, macro definitions and conditional
// blocks are dropped. A light approximation: tables and equations keep their source form. Pages
// that only refer to another page give empty text.
std::string ManualPageText(std::string_view roff);

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_MANUAL_PAGE_TEXT_H_
