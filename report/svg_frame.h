// The parts that all plots share: the SVG element, scales and axes.
#ifndef BRAID_REPORT_SVG_FRAME_H_
#define BRAID_REPORT_SVG_FRAME_H_

#include <string>
#include <vector>

namespace braid {

// A linear map from values to pixels.
struct PlotScale {
  double low = 0, high = 1;
  double pixel_low = 0, pixel_high = 1;
  double operator()(double value) const {
    return pixel_low + (value - low) / (high - low) * (pixel_high - pixel_low);
  }
};

// A scale whose range is never empty: values that differ by rounding alone are one.
PlotScale ScaleOf(double low, double high, double pixel_low, double pixel_high);

// At most `count` + 1 round numbers (1, 2, 2.5 or 5 times a power of ten) that
// cover the range from the inside; `low` alone where the range is empty.
std::vector<double> RoundTicks(double low, double high, int count);

// <svg class="plot"> ... </svg> of this size around `content`; `description` is plain text.
std::string SvgElement(double width, double height, const std::string& description,
                       const std::string& content);

// `content` without what lies outside this rectangle.
std::string Clipped(double left, double top, double right, double bottom,
                    const std::string& content);

// Text at a point; `anchor` is start, middle or end. `text` is plain.
std::string SvgText(double x, double y, const std::string& anchor, const std::string& text,
                    const std::string& css_class = "");

// A rectangle that shows `title` on hover; without one when that is empty.
std::string SvgRectangle(double x, double y, double width, double height,
                         const std::string& attributes, const std::string& title);

// A line with a CSS class.
std::string SvgLine(double x1, double y1, double x2, double y2, const std::string& css_class);

// A coordinate with two digits.
std::string Pixel(double value);

// Vertical grid lines with their numbers below `bottom`.
std::string XAxis(const PlotScale& x, double top, double bottom, const std::string& label);
// Horizontal grid lines with their numbers left of `left`.
std::string YAxis(const PlotScale& y, double left, double right, const std::string& label);

// At most `length` characters, the last an ellipsis when cut.
std::string Shorten(const std::string& text, size_t length);

// Returns about how many pixels UTF-8 text is wide at a font size; an upper estimate for usual
// text.
double TextWidth(const std::string& text, double font_size = 12);

// Pixels that labels need left of a plot when each is cut at 20 characters.
double LabelWidth(const std::vector<std::string>& labels);

}  // namespace braid

#endif  // BRAID_REPORT_SVG_FRAME_H_
