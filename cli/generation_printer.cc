#include "cli/generation_printer.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "cli/routing_bars.h"

namespace braid {

std::string PrintableText(std::string_view text) {
  std::string printable(text);
  std::ranges::replace_if(
      printable,
      [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F;
      },
      '?');
  return printable;
}

void GenerationPrinter::Print(std::string_view text) {
  if (text.empty()) return;
  out_ << (options_.terminal ? PrintableText(text) : std::string(text)) << std::flush;
  line_begun_ = text.back() != '\n';
}

bool GenerationPrinter::Add(const v1::GenerateEvent& event) {
  if (event.routing_size() > 0) PrintRouting(event);
  Print(event.text());
  if (event.done()) {
    out_ << std::endl;
    line_begun_ = false;
    notes_ << absl::StrFormat("[%d tokens, %.0f tokens/s]", event.num_tokens(),
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
  if (options_.terminal) EndLine();
  notes_ << absl::StrFormat("[routing before token %d]\n", std::max(1, event.num_tokens()));
  for (const std::string& line : RoutingLines(event.routing(), options_.blocks)) {
    notes_ << "  " << line << "\n";
  }
  notes_.flush();
}

}  // namespace braid
