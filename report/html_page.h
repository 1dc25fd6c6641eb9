// The frame that all pages share: one HTML file, readable without network or scripts.
#ifndef BRAID_REPORT_HTML_PAGE_H_
#define BRAID_REPORT_HTML_PAGE_H_

#include <span>
#include <string>

namespace braid {

// A page; all fields are HTML.
struct HtmlPage {
  std::string title;  // also the heading
  // Follows kReportStyle.
  std::string style = {};
  std::string body = {};
};
std::string RenderHtmlPage(const HtmlPage& page);

// Returns a <section> with a heading, an explanation and a body; "" if the body is empty. All are
// HTML; `id` is the target of links.
std::string Section(const std::string& heading, const std::string& explanation,
                    const std::string& body, const std::string& id = "");

struct SectionLink {
  std::string id;
  std::string name;
};
// Returns the table of contents.
std::string RenderLinks(std::span<const SectionLink> links);

}  // namespace braid

#endif  // BRAID_REPORT_HTML_PAGE_H_
