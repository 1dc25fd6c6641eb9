// The appearance of verdicts. Each has its own color and shape, and is named where there is space.
#ifndef BRAID_REPRODUCE_VERDICT_MARK_H_
#define BRAID_REPRODUCE_VERDICT_MARK_H_

#include <string>

#include "reproduce/verdict.h"

namespace braid {

// Returns the CSS class: "shown", "not-shown", ...
std::string VerdictClass(Verdict verdict);

// Returns SVG in the current color: a disc, a cross, a diamond or a ring around the point, 8 pixels
// wide.
std::string VerdictShape(Verdict verdict, double x, double y);

// Returns the shape and the name as HTML.
std::string VerdictBadge(Verdict verdict);

// Returns the shape and `text`, which is HTML, as HTML.
std::string VerdictBadge(Verdict verdict, const std::string& text);

}  // namespace braid

#endif  // BRAID_REPRODUCE_VERDICT_MARK_H_
