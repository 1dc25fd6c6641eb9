#include "report/html_text.h"

#include <array>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/utf8.h"

namespace braid {
namespace {

constexpr char kReplacement[] = "\xEF\xBF\xBD";
constexpr char kDash[] = "\xE2\x80\x93";

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

std::string FormatFixed(double value, int digits) {
  if (!std::isfinite(value)) return kDash;
  return absl::StrFormat("%.*f", digits, value);
}

std::string FormatSigned(double value, int digits) {
  if (!std::isfinite(value)) return kDash;
  return absl::StrFormat("%+.*f", digits, value);
}

std::string FormatCount(double value) {
  if (!std::isfinite(value)) return kDash;
  constexpr std::array<const char*, 5> kSuffixes = {"", "k", "M", "B", "T"};
  size_t suffix = 0;
  // 999.5 is where three digits would round to four.
  while (std::abs(value) >= 999.5 && suffix + 1 < kSuffixes.size()) {
    value /= 1000;
    ++suffix;
  }
  if (value == std::floor(value)) return absl::StrFormat("%.0f%s", value, kSuffixes[suffix]);
  const double size = std::abs(value);
  const int digits = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return absl::StrFormat("%.*f%s", digits, value, kSuffixes[suffix]);
}

std::string FormatDuration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e11) return kDash;
  if (seconds < 9.95) return absl::StrFormat("%.1f s", seconds);
  const int64_t whole = std::llround(seconds);
  if (whole < 60) return absl::StrFormat("%d s", whole);
  if (whole < 3600) return absl::StrFormat("%d min %d s", whole / 60, whole % 60);
  if (whole < 86400) return absl::StrFormat("%d h %d min", whole / 3600, whole % 3600 / 60);
  return absl::StrFormat("%d d %d h", whole / 86400, whole % 86400 / 3600);
}

std::string FormatTime(double unix_seconds) {
  if (!std::isfinite(unix_seconds) || unix_seconds <= 0 || unix_seconds > 1e11) return kDash;
  return absl::FormatTime("%Y-%m-%d %H:%M", absl::FromUnixSeconds(std::llround(unix_seconds)),
                          absl::UTCTimeZone());
}

std::string RenderTable(const HtmlTable& table) {
  std::string out = absl::StrCat(
      "<div class=\"scroll\"><table", table.numeric ? " class=\"numeric\"" : "", ">\n<thead>",
      RenderRow({table.header}, "th scope=\"col\""), "</thead>\n<tbody>\n");
  for (const HtmlTable::Row& row : table.rows) out += RenderRow(row, "td");
  return out + "</tbody></table></div>\n";
}

std::string FormatPercent(double share) {
  return std::isfinite(share) ? FormatFixed(100 * share, 1) + "\xC2\xA0%" : FormatFixed(share, 1);
}

}  // namespace braid
