#include "reproduce/verdict_mark.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "report/svg_frame.h"

namespace braid {
namespace {

std::string Circle(const char* css_class, double x, double y, const char* radius) {
  return absl::StrCat("<circle class=\"", css_class, "\" cx=\"", Pixel(x), "\" cy=\"", Pixel(y),
                      "\" r=\"", radius, "\"/>");
}

std::string Path(const char* css_class, double x, double y, const char* steps) {
  return absl::StrCat("<path class=\"", css_class, "\" d=\"M", Pixel(x), " ", Pixel(y), steps,
                      "\"/>");
}

}  // namespace

std::string VerdictClass(Verdict verdict) {
  return absl::StrReplaceAll(VerdictName(verdict), {{" ", "-"}});
}

std::string VerdictShape(Verdict verdict, double x, double y) {
  switch (verdict) {
    case Verdict::kShown:
      return Circle("dot", x, y, "4");
    case Verdict::kNotShown:
      return Path("cross", x - 3.5, y - 3.5, "l7 7m0 -7l-7 7");
    case Verdict::kInconclusive:
      return Path("dot", x, y - 4.8, "l4.8 4.8l-4.8 4.8l-4.8 -4.8z");
    case Verdict::kNotMeasured:
      return Circle("hollow", x, y, "3.2");
  }
  return "";
}

std::string VerdictBadge(Verdict verdict) { return VerdictBadge(verdict, VerdictName(verdict)); }

std::string VerdictBadge(Verdict verdict, const std::string& text) {
  const std::string read =
      text.empty() ? absl::StrCat("role=\"img\" aria-label=\"", VerdictName(verdict), "\"")
                   : "aria-hidden=\"true\"";
  return absl::StrCat("<span class=\"verdict ", VerdictClass(verdict), "\"><svg class=\"sign\" ",
                      read, " viewBox=\"0 0 12 12\">", VerdictShape(verdict, 6, 6), "</svg>", text,
                      "</span>");
}

}  // namespace braid
