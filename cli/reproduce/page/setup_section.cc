#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/reproduce/page/page_sections.h"
#include "cli/reproduce/reproduction_plan.h"
#include "cli/tables.h"
#include "trainer/report/html_page.h"
#include "trainer/report/html_text.h"

namespace braid {
namespace {

std::string Facts(const Reproduction& reproduction) {
  const std::array<std::pair<const char*, std::string>, 6> facts = {{
      {"plan", EscapeHtml(reproduction.plan)},
      {"command", absl::StrCat("<code>", EscapeHtml(reproduction.command), "</code>")},
      {"version", EscapeHtml(reproduction.version)},
      {"runs", absl::StrCat(reproduction.runs.size(), " with ", NumSeeds(reproduction),
                            NumSeeds(reproduction) == 1 ? " seed" : " seeds")},
      {"each",
       absl::StrCat(WithThousands(reproduction.num_steps), " steps, ",
                    FormatCount(static_cast<double>(reproduction.tokens_of_run)), " tokens")},
      {"time", FormatDuration(reproduction.seconds)},
  }};
  std::string rows;
  for (const auto& [name, value] : facts) {
    absl::StrAppend(&rows, "<tr><th scope=\"row\">", name, "</th><td>", value, "</td></tr>\n");
  }
  return absl::StrCat("<table class=\"facts\"><tbody>\n", rows, "</tbody></table>\n");
}

std::string Notes(const Reproduction& reproduction) {
  std::string items;
  for (const std::string& note : reproduction.notes) {
    absl::StrAppend(&items, "<li>", EscapeHtml(note), "</li>\n");
  }
  if (items.empty()) return "";
  return absl::StrCat("<h3>Notes</h3>\n<ul class=\"findings\">\n",
                      items, "</ul>\n");
}

std::string Domains(const Reproduction& reproduction) {
  if (reproduction.domains.empty()) return "<p>The corpus has no domains.</p>\n";
  double total = 0;
  for (const DomainProfile& domain : reproduction.domains) {
    total += static_cast<double>(domain.num_tokens);
  }
  HtmlTable table{.header = {"domain", "training tokens", "share", "similarity"}, .rows = {}};
  for (const DomainProfile& domain : reproduction.domains) {
    const double tokens = static_cast<double>(domain.num_tokens);
    table.rows.push_back({{EscapeHtml(domain.name), FormatCount(tokens),
                           FormatFixed(total > 0 ? 100 * tokens / total : std::nan(""), 1) + " %",
                           FormatFixed(domain.similarity, 3)}});
  }
  return absl::StrCat(
      "<h3>Domains</h3>\n<p class=\"note\">Similarity: cosine of the mean embedding "
      "of a domain with that of all training text.</p>\n",
      RenderTable(table));
}

// Arms that were run, in the order of the plan.
std::string Arms(const Reproduction& reproduction) {
  std::set<std::string> names;
  for (const ReproducedRun& run : reproduction.runs) names.insert(run.arm);
  HtmlTable table{.header = {"arm", "what it is"}, .rows = {}, .numeric = false};
  for (const ArmDefinition& arm : ArmDefinitions()) {
    if (!names.contains(arm.name)) continue;
    table.rows.push_back({{EscapeHtml(arm.name), EscapeHtml(arm.description)}});
  }
  return table.rows.empty() ? "" : absl::StrCat("<h3>Arms</h3>\n", RenderTable(table));
}

std::string Runs(const Reproduction& reproduction) {
  if (reproduction.runs.empty()) return "<p>No run was made.</p>\n";
  HtmlTable table{.header = {"run", "order", "seed", "id", "training loss", "held-out loss"},
                  .rows = {}};
  for (const ReproducedRun& run : reproduction.runs) {
    table.rows.push_back(
        {{EscapeHtml(run.name), run.order == v1::SIMILARITY ? "similarity" : "random",
          absl::StrCat(run.seed), EscapeHtml(run.id), FormatFixed(run.training_loss, 3),
          FormatFixed(run.heldout_loss, 3)}});
  }
  return absl::StrCat(
      "<h3>Runs</h3>\n<p class=\"note\">Nats per token without first segments; the "
      "training loss is the mean of the last tenth of the steps. Losses of "
      "different seeds are never compared.</p>\n",
      RenderTable(table));
}

}  // namespace

size_t NumSeeds(const Reproduction& reproduction) {
  std::set<uint64_t> seeds;
  for (const ReproducedRun& run : reproduction.runs) seeds.insert(run.seed);
  size_t most = seeds.size();
  if (most > 0) return most;
  for (const Claim& claim : reproduction.claims) {
    for (const ClaimPart& part : claim.parts) {
      if (part.estimate) most = std::max(most, part.estimate->by_seed.size());
    }
  }
  return most;
}

std::string SetupSection(const Reproduction& reproduction) {
  return Section("What was run",
                 "One corpus in two orders; within a seed all arms of an order see the same "
                 "sequences at every step and start from the same values in every weight they "
                 "share.",
                 absl::StrCat(Facts(reproduction), Notes(reproduction), Domains(reproduction),
                              Arms(reproduction), Runs(reproduction)),
                 "setup");
}

}  // namespace braid
