// The frame that all pages share: one HTML file, readable without network or scripts.
#ifndef BRAID_REPORT_HTML_PAGE_H_
#define BRAID_REPORT_HTML_PAGE_H_

#include <span>
#include <string>

namespace braid {

// Everything is HTML.
struct HtmlPage {
  std::string title;  // its heading, too
  // Behind kReportStyle.
  std::string style = {};
  std::string body = {};
};
std::string RenderHtmlPage(const HtmlPage& page);

// <section> with a heading, a sentence that says how to read it, and a body; empty
// when the body is. `heading` and `explanation` are HTML; `id` is what links name.
std::string Section(const std::string& heading, const std::string& explanation,
                    const std::string& body, const std::string& id = "");

struct SectionLink {
  std::string id;
  std::string name;
};
// The table of contents.
std::string RenderLinks(std::span<const SectionLink> links);

}  // namespace braid

#endif  // BRAID_REPORT_HTML_PAGE_H_
