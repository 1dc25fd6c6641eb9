// Prints text while it is generated.
#ifndef BRAID_CLIENT_TERMINAL_GENERATION_PRINTER_H_
#define BRAID_CLIENT_TERMINAL_GENERATION_PRINTER_H_

#include <ostream>
#include <string_view>

#include "braid/v1/generation.pb.h"
#include "client/terminal/source_warning.h"

namespace braid {

// A printer that writes text to `out` as it arrives, and to `notes` a warning about the checkpoint
// (SourceWarning), the router weights whenever they change and, at the end, the number of tokens
// and their rate.
class GenerationPrinter {
 public:
  struct Options {
    // True if `out` is a terminal: notes then start on a new line, and text is printed as
    // PrintableText.
    bool terminal = false;
    // Draws bars with block characters; see RoutingBar.
    bool blocks = false;
    // True if routing was requested: a note is then printed for a model without routing.
    bool routing_asked = false;
  };

  GenerationPrinter(const Options& options, std::ostream& out, std::ostream& notes)
      : options_(options), out_(out), notes_(notes), warning_(notes) {}

  // Prints text, such as the prompt.
  void Print(std::string_view text);
  // Prints an event. Returns false when a write to `out` failed.
  bool Add(const v1::GenerateEvent& event);
  // Ends the line of a text that was stopped.
  void EndLine();

 private:
  void PrintRouting(const v1::GenerateEvent& event);

  Options options_;
  std::ostream& out_;
  std::ostream& notes_;
  SourceWarning warning_;
  bool line_begun_ = false;
};

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_GENERATION_PRINTER_H_
