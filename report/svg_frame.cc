#include "report/svg_frame.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/number_text.h"
#include "base/utf8.h"
#include "report/html_text.h"

namespace braid {
namespace {

constexpr double kPixelsPerXTick = 60;
constexpr int kYTicks = 5;
constexpr std::array<const char*, 5> kSuffixes = {"", "k", "M", "B", "T"};
// Largest magnification of a plot on a wide page.
constexpr double kLargestZoom = 1.3;
// Mean width of a character of a sans-serif font, in units of the font size.
constexpr double kCharacterWidth = 0.58;
// Mean width of a capital letter, in units of that of a character.
constexpr double kCapitalWidth = 1.2;
// Relative to the larger end of a range. The ends of a narrower range differ by rounding alone, and
// ticks inside it could not be distinguished.
constexpr double kNarrowestRange = 1e-12;

bool HasRange(double low, double high) {
  return high - low > kNarrowestRange * std::max(std::abs(low), std::abs(high));
}

int DigitsOf(double step) {
  const int digits =
      step > 0 ? std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 6) : 0;
  // A step such as 2.5 needs one more digit than its power of ten.
  const double scaled = step * std::pow(10, digits);
  return std::abs(scaled - std::round(scaled)) > 1e-6 ? digits + 1 : digits;
}

double StepOf(const std::vector<double>& ticks) {
  return ticks.size() > 1 ? ticks[1] - ticks[0] : std::abs(ticks.front());
}

// Returns the text of a tick. All ticks have the same unit and the number of digits that
// distinguishes adjacent ones: "1.0k", "1.2k".
std::string TickText(double value, const std::vector<double>& ticks) {
  const double largest = std::max(std::abs(ticks.front()), std::abs(ticks.back()));
  double unit = 1;
  size_t suffix = 0;
  for (; largest >= 1000 * unit && suffix + 1 < kSuffixes.size(); ++suffix) unit *= 1000;
  if (value == 0 && suffix > 0) return "0";
  return FormatFixed(value / unit, DigitsOf(StepOf(ticks) / unit)) + kSuffixes[suffix];
}

// Returns the character of `text` that starts at `offset`, or the byte that is not a part of one.
std::string_view CharacterAt(std::string_view text, size_t offset) {
  const std::string_view rest = text.substr(offset);
  return rest.substr(0, std::max<size_t>(1, ValidCharacterLength(rest)));
}

// Returns the number of characters of mean width that are about as wide as the text.
double MeanCharacters(std::string_view text) {
  double sum = 0;
  for (size_t i = 0; i < text.size(); i += CharacterAt(text, i).size()) {
    sum += absl::ascii_isupper(text[i]) ? kCapitalWidth : CharacterColumns(text.substr(i));
  }
  return sum;
}

}  // namespace

PlotScale ScaleOf(double low, double high, double pixel_low, double pixel_high) {
  if (!HasRange(low, high)) {
    const double margin = std::max(1e-3, std::abs(low) * 0.05);
    low -= margin;
    high = low + 2 * margin;
  }
  return {low, high, pixel_low, pixel_high};
}

std::vector<double> RoundTicks(double low, double high, int count) {
  const double raw = (high - low) / count;
  if (!HasRange(low, high) || !std::isfinite(raw)) return {low};
  const double power = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.5, 2.0, 1.0}) {
    if (factor * power >= raw * (1 - 1e-9)) step = factor * power;
  }
  std::vector<double> ticks;
  const double first = std::ceil(low / step - 1e-9);
  for (double k = first; k * step <= high + 1e-9 * step; ++k) {
    ticks.push_back(k * step + 0.0);  // + 0.0 turns a negative zero into zero
  }
  return ticks;
}

std::string SvgElement(double width, double height, const std::string& description,
                       const std::string& content) {
  return absl::StrCat(
      "<svg class=\"plot\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 ",
      Pixel(width), " ", Pixel(height), "\" style=\"max-width:", Pixel(kLargestZoom * width),
      "px\" aria-label=\"", EscapeHtml(description), "\">\n", content, "</svg>\n");
}

std::string SvgText(double x, double y, const std::string& anchor, const std::string& text,
                    const std::string& css_class) {
  return absl::StrCat("<text x=\"", Pixel(x), "\" y=\"", Pixel(y), "\" text-anchor=\"", anchor,
                      "\"", css_class.empty() ? "" : absl::StrCat(" class=\"", css_class, "\""),
                      ">", EscapeHtml(text), "</text>");
}

std::string Clipped(double left, double top, double right, double bottom,
                    const std::string& content) {
  const std::string x = Pixel(left), y = Pixel(top);
  const std::string width = Pixel(right - left), height = Pixel(bottom - top);
  return absl::StrCat("<svg x=\"", x, "\" y=\"", y, "\" width=\"", width, "\" height=\"", height,
                      "\" viewBox=\"", x, " ", y, " ", width, " ", height, "\">\n", content,
                      "</svg>\n");
}

std::string SvgRectangle(double x, double y, double width, double height,
                         const std::string& attributes, const std::string& title) {
  const std::string open =
      absl::StrCat("<rect x=\"", Pixel(x), "\" y=\"", Pixel(y), "\" width=\"", Pixel(width),
                   "\" height=\"", Pixel(height), "\" ", attributes);
  if (title.empty()) return open + "/>";
  return absl::StrCat(open, "><title>", EscapeHtml(title), "</title></rect>");
}

std::string SvgLine(double x1, double y1, double x2, double y2, const std::string& css_class) {
  return absl::StrCat("<line class=\"", css_class, "\" x1=\"", Pixel(x1), "\" y1=\"", Pixel(y1),
                      "\" x2=\"", Pixel(x2), "\" y2=\"", Pixel(y2), "\"/>");
}

std::string SvgInterval(const PlotScale& x, double low, double high, double y,
                        const std::string& css_class, double cap) {
  std::string out = absl::StrCat("<path class=\"", css_class, "\" d=\"M", Pixel(x(low)), " ",
                                 Pixel(y), "H", Pixel(x(high)));
  for (const double end : {low, high}) {
    if (cap > 0)
      absl::StrAppend(&out, "M", Pixel(x(end)), " ", Pixel(y - cap), "v", Pixel(2 * cap));
  }
  return out + "\"/>";
}

std::string Pixel(double value) { return absl::StrFormat("%.5g", std::round(value * 100) / 100); }

std::string XAxis(const PlotScale& x, double top, double bottom, const std::string& label) {
  const std::vector<double> ticks = RoundTicks(
      x.low, x.high, std::max(2, static_cast<int>((x.pixel_high - x.pixel_low) / kPixelsPerXTick)));
  std::string out;
  for (const double tick : ticks) {
    absl::StrAppend(&out, SvgLine(x(tick), top, x(tick), bottom, "grid"),
                    SvgText(x(tick), bottom + 17, "middle", TickText(tick, ticks)));
  }
  absl::StrAppend(&out, SvgText((x.pixel_low + x.pixel_high) / 2, bottom + 36, "middle", label),
                  "\n");
  return out;
}

std::string YAxis(const PlotScale& y, double left, double right, const std::string& label) {
  const std::vector<double> ticks = RoundTicks(y.low, y.high, kYTicks);
  std::string out;
  for (const double tick : ticks) {
    absl::StrAppend(&out, SvgLine(left, y(tick), right, y(tick), "grid"),
                    SvgText(left - 6, y(tick) + 4, "end", TickText(tick, ticks)));
  }
  absl::StrAppend(&out, SvgText(4, 13, "start", label), "\n");
  return out;
}

std::string Shorten(const std::string& text, double length) {
  if (MeanCharacters(text) <= length) return text;
  double free = length - 1;
  size_t end = 0;
  while (end < text.size()) {
    const std::string_view character = CharacterAt(text, end);
    free -= MeanCharacters(character);
    if (free < 0) break;
    end += character.size();
  }
  return text.substr(0, end) + "\xE2\x80\xA6";
}

double TextWidth(const std::string& text, double font_size) {
  return kCharacterWidth * font_size * MeanCharacters(text);
}

double LabelWidth(const std::vector<std::string>& labels) {
  double widest = 0;
  for (const std::string& label : labels) {
    widest = std::max(widest, TextWidth(Shorten(label, 20)));
  }
  return 14 + widest;
}

}  // namespace braid
