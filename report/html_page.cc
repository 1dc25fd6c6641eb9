#include "report/html_page.h"

#include "absl/strings/str_cat.h"
#include "report/report_style.h"

namespace braid {

std::string RenderHtmlPage(const HtmlPage& page) {
  return absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>",
      page.title, "</title>\n<style>\n", kReportStyle, page.style,
      "</style>\n</head>\n<body>\n<main>\n<h1>", page.title, "</h1>\n", page.body,
      "</main>\n</body>\n</html>\n");
}

std::string Section(const std::string& heading, const std::string& explanation,
                    const std::string& body, const std::string& id) {
  if (body.empty()) return "";
  return absl::StrCat(id.empty() ? "<section>" : absl::StrCat("<section id=\"", id, "\">"),
                      "\n<h2>", heading, "</h2>\n<p class=\"note\">", explanation, "</p>\n", body,
                      "</section>\n");
}

std::string RenderLinks(std::span<const SectionLink> links) {
  std::string out = "<nav aria-label=\"Sections\">\n";
  for (const SectionLink& link : links) {
    absl::StrAppend(&out, "<a href=\"#", link.id, "\">", link.name, "</a>\n");
  }
  return out + "</nav>\n";
}

}  // namespace braid
