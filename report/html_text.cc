#include "report/html_text.h"

#include "absl/strings/str_cat.h"

namespace braid {
namespace {

constexpr char kReplacement[] = "\xEF\xBF\xBD";

// Returns the number of bytes of the UTF-8 character at the start of `text`; 0 if it is not valid.
size_t CharacterLength(std::string_view text) {
  const unsigned char lead = text.front();
  const size_t length = lead < 0x80   ? 1
                        : lead < 0xC2 ? 0
                        : lead < 0xE0 ? 2
                        : lead < 0xF0 ? 3
                        : lead < 0xF5 ? 4
                                      : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
  }
  // Surrogates and overlong forms of three and four bytes are not valid.
  const unsigned char second = length > 2 ? text[1] : 0x90;
  if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F)) return 0;
  if ((lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F)) return 0;
  return length;
}

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
    const size_t length = CharacterLength(text);
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
