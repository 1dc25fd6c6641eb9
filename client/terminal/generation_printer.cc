#include "client/terminal/generation_printer.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/number_text.h"
#include "client/terminal/routing_bars.h"
#include "client/terminal/terminal_text.h"

namespace braid {

void GenerationPrinter::Print(std::string_view text) {
  if (text.empty()) return;
  out_ << (options_.terminal ? PrintableText(text) : std::string(text)) << std::flush;
  line_begun_ = text.back() != '\n';
}

bool GenerationPrinter::Add(const v1::GenerateEvent& event) {
  if (options_.terminal && warning_.IsNews(event.source())) EndLine();
  warning_.Show(event.source());
  if (std::exchange(options_.routing_asked, false) && event.routing_size() == 0) {
    if (options_.terminal) EndLine();
    notes_ << "[no layer has experts to merge: no routing weights]" << std::endl;
  }
  PrintRouting(event);
  Print(event.text());
  if (event.done()) {
    out_ << std::endl;
    line_begun_ = false;
    notes_ << absl::StrFormat("[%s, %.0f tokens/s]", Counted(event.num_tokens(), "token"),
                              event.tokens_per_second())
           << std::endl;
  }
  return out_.good();
}

void GenerationPrinter::EndLine() {
  if (line_begun_) out_ << std::endl;
  line_begun_ = false;
}

void GenerationPrinter::PrintRouting(const v1::GenerateEvent& event) {
  if (event.routing_size() > 0 && options_.terminal) EndLine();
  std::map<int32_t, std::vector<const v1::RoutingMixture*>> changes;
  for (const v1::RoutingMixture& mixture : event.routing()) {
    changes[mixture.before_token()].push_back(&mixture);
  }
  for (const auto& [token, mixtures] : changes) {
    notes_ << absl::StrFormat("[routing before token %d]\n", token);
    for (const std::string& line : RoutingLines(mixtures, options_.blocks)) {
      notes_ << "  " << line << "\n";
    }
  }
  notes_.flush();
}

}  // namespace braid
