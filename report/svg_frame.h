// SVG elements, scales and axes, which all plots share.
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

// Returns a scale whose range is never empty: it is widened if its ends differ by rounding alone.
PlotScale ScaleOf(double low, double high, double pixel_low, double pixel_high);

// Returns at most `count` + 1 round numbers (1, 2, 2.5 or 5 times a power of ten) within the range;
// only `low` if the range is empty.
std::vector<double> RoundTicks(double low, double high, int count);

// Returns an <svg class="plot"> of this size with `content`; `description` is plain text.
std::string SvgElement(double width, double height, const std::string& description,
                       const std::string& content);

// Clips `content` to this rectangle.
std::string Clipped(double left, double top, double right, double bottom,
                    const std::string& content);

// Returns text at a point. `anchor` is start, middle or end; `text` is plain text.
std::string SvgText(double x, double y, const std::string& anchor, const std::string& text,
                    const std::string& css_class = "");

// Returns a rectangle with the tooltip `title`, if that is not empty.
std::string SvgRectangle(double x, double y, double width, double height,
                         const std::string& attributes, const std::string& title);

// Returns a line with a CSS class.
std::string SvgLine(double x1, double y1, double x2, double y2, const std::string& css_class);

// Returns the horizontal line of an interval at `y`, with a CSS class. `cap` is half the height of
// the strokes at its ends, 0 for none.
std::string SvgInterval(const PlotScale& x, double low, double high, double y,
                        const std::string& css_class, double cap = 0);

// Returns a coordinate, rounded to two decimals.
std::string Pixel(double value);

// Returns vertical grid lines with their numbers below `bottom`.
std::string XAxis(const PlotScale& x, double top, double bottom, const std::string& label);
// Returns horizontal grid lines with their numbers left of `left`.
std::string YAxis(const PlotScale& y, double left, double right, const std::string& label);

// Returns as much of the text as is about as wide as `length` characters of mean width; the last
// character is an ellipsis if the text was cut.
std::string Shorten(const std::string& text, double length);

// Returns about how many pixels UTF-8 text is wide at a font size; an upper estimate for usual
// text.
double TextWidth(const std::string& text, double font_size = 12);

// Returns the pixels that labels, which Shorten() cuts to 20 characters, need left of a plot.
double LabelWidth(const std::vector<std::string>& labels);

}  // namespace braid

#endif  // BRAID_REPORT_SVG_FRAME_H_
