// How a verdict looks: each has a colour and a shape of its own, and is named wherever there is
// room.
#ifndef BRAID_REPRODUCE_VERDICT_MARK_H_
#define BRAID_REPRODUCE_VERDICT_MARK_H_

#include <string>

#include "reproduce/verdict.h"

namespace braid {

// Of the style sheet: "shown", "not-shown", ...
std::string VerdictClass(Verdict verdict);

// SVG in the current colour: a disc, a cross, a diamond or a ring about the point, 8 pixels wide.
std::string VerdictShape(Verdict verdict, double x, double y);

// HTML: the shape and the word.
std::string VerdictBadge(Verdict verdict);

// HTML: the shape and `text`, which is HTML, too.
std::string VerdictBadge(Verdict verdict, const std::string& text);

}  // namespace braid

#endif  // BRAID_REPRODUCE_VERDICT_MARK_H_
