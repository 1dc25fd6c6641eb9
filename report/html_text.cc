#include "report/html_text.h"

#include "absl/strings/str_cat.h"
#include "base/utf8.h"

namespace braid {
namespace {

constexpr char kReplacement[] = "\xEF\xBF\xBD";

void AppendAscii(char c, std::string* out) {
  switch (c) {
    case '&':
      out->append("&amp;");
      return;
    case '<':
      out->append("&lt;");
      return;
    case '>':
      out->append("&gt;");
      return;
    case '"':
      out->append("&quot;");
      return;
    case '\'':
      out->append("&#39;");
      return;
    case '\n':
    case '\t':
      out->push_back(c);
      return;
    default:
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
        out->append(kReplacement);
      } else {
        out->push_back(c);
      }
  }
}

std::string RenderRow(const HtmlTable::Row& row, const char* cell) {
  std::string out =
      row.css_class.empty() ? "<tr>" : absl::StrCat("<tr class=\"", row.css_class, "\">");
  const std::string end(cell, 2);
  for (const std::string& content : row.cells) {
    absl::StrAppend(&out, "<", cell, ">", content, "</", end, ">");
  }
  return out + "</tr>\n";
}

}  // namespace

std::string EscapeHtml(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = ValidCharacterLength(text);
    if (length == 0) {
      out.append(kReplacement);
    } else if (length == 1) {
      AppendAscii(text.front(), &out);
    } else {
      out.append(text.substr(0, length));
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

std::string RenderTable(const HtmlTable& table) {
  std::string out = absl::StrCat(
      "<div class=\"scroll\"><table", table.numeric ? " class=\"numeric\"" : "", ">\n<thead>",
      RenderRow({table.header}, "th scope=\"col\""), "</thead>\n<tbody>\n");
  for (const HtmlTable::Row& row : table.rows) out += RenderRow(row, "td");
  return out + "</tbody></table></div>\n";
}

}  // namespace braid
