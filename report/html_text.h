// Text and numbers as they appear on the report page.
#ifndef BRAID_REPORT_HTML_TEXT_H_
#define BRAID_REPORT_HTML_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace braid {

// Safe inside elements and double-quoted attributes. Bytes that are not UTF-8, and
// control characters other than newline and tab, become U+FFFD.
std::string EscapeHtml(std::string_view text);

// `digits` after the point; a dash for a value that is not finite.
std::string FormatFixed(double value, int digits);

// "12.3 %" for .123, with a no-break space.
std::string FormatPercent(double share);
// With a sign: "+0.110".
std::string FormatSigned(double value, int digits);
// Three significant digits and a suffix: "950", "12.4k", "1.05M", "29.5B".
std::string FormatCount(double value);
// "48 s", "12 min 5 s", "3 h 20 min", "2 d 4 h"; a dash for what is negative or not finite.
std::string FormatDuration(double seconds);
// Unix seconds as "2026-11-21 00:09" in UTC; a dash when not positive.
std::string FormatTime(double unix_seconds);

// A table in a frame that scrolls sideways when narrow. Cells hold HTML; all but the
// first column are aligned right. A row may carry a class, for highlighting.
struct HtmlTable {
  struct Row {
    std::vector<std::string> cells;
    std::string css_class = {};
  };
  std::vector<std::string> header;
  std::vector<Row> rows;
  bool numeric = true;
};
std::string RenderTable(const HtmlTable& table);

}  // namespace braid

#endif  // BRAID_REPORT_HTML_TEXT_H_
