#include "reproduce/reproduction_page.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "report/html_page.h"
#include "reproduce/page_sections.h"
#include "reproduce/page_style.h"

namespace braid {

std::string RenderReproduction(const Reproduction& reproduction) {
  std::vector<SectionLink> links;
  std::string sections;
  const auto add = [&](const std::string& id, const std::string& name, const std::string& html) {
    if (html.empty()) return;
    links.push_back({id, name});
    sections += html;
  };
  add("verdicts", "Verdicts", VerdictsSection(reproduction));
  add("effects", "Effects", EffectsSection(reproduction));
  for (const Claim& claim : reproduction.claims) {
    add(ClaimId(claim), absl::StrCat("Claim ", claim.number), ClaimSection(claim));
  }
  add("setup", "Setup", SetupSection(reproduction));
  add("reading", "How to read this page", ReadingSection(reproduction));
  return RenderHtmlPage({.title = reproduction.experiment->title,
                         .style = kReproductionStyle,
                         .body = RenderLinks(links) + sections});
}

}  // namespace braid
