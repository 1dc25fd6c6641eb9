// Text and tables of HTML pages.
#ifndef BRAID_REPORT_HTML_TEXT_H_
#define BRAID_REPORT_HTML_TEXT_H_

#include <string>
#include <string_view>
#include <vector>

namespace braid {

// Escapes text for use inside elements and double-quoted attributes. Replaces bytes that are not
// UTF-8 and control characters other than newline and tab by U+FFFD.
std::string EscapeHtml(std::string_view text);

// A table in a frame that scrolls horizontally on narrow pages. Cells are HTML; if `numeric`, all
// columns but the first are right-aligned.
struct HtmlTable {
  struct Row {
    std::vector<std::string> cells;
    std::string css_class = {};  // highlights the row
  };
  std::vector<std::string> header;
  std::vector<Row> rows;
  bool numeric = true;
};
std::string RenderTable(const HtmlTable& table);

}  // namespace braid

#endif  // BRAID_REPORT_HTML_TEXT_H_
