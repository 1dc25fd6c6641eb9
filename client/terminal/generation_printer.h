// A text as it is generated, for a person.
#ifndef BRAID_CLIENT_TERMINAL_GENERATION_PRINTER_H_
#define BRAID_CLIENT_TERMINAL_GENERATION_PRINTER_H_

#include <ostream>
#include <string_view>

#include "braid/v1/generation.pb.h"

namespace braid {

// The text goes to `out` as it comes, and what is told about it to `notes`: the routing weights in
// use, whenever they change, and at the end how many tokens there were and how fast.
class GenerationPrinter {
 public:
  struct Options {
    // `out` is a terminal: notes begin on a line of their own, and the text is PrintableText.
    bool terminal = false;
    // See RoutingBar.
    bool blocks = false;
    // Tells when there is none.
    bool routing_asked = false;
  };

  GenerationPrinter(const Options& options, std::ostream& out, std::ostream& notes)
      : options_(options), out_(out), notes_(notes) {}

  void Print(std::string_view text);
  // False when `out` takes no more.
  bool Add(const v1::GenerateEvent& event);
  // Ends a text that was given up.
  void EndLine();

 private:
  void PrintRouting(const v1::GenerateEvent& event);

  Options options_;
  std::ostream& out_;
  std::ostream& notes_;
  bool line_begun_ = false;
};

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_GENERATION_PRINTER_H_
