// The parts that all plots share: the SVG element, scales and axes.
#ifndef BRAID_TRAINER_REPORT_SVG_FRAME_H_
#define BRAID_TRAINER_REPORT_SVG_FRAME_H_

#include <string>

namespace braid {

// A linear map from values to pixels.
struct PlotScale {
  double low = 0, high = 1;
  double pixel_low = 0, pixel_high = 1;
  double operator()(double value) const {
    return pixel_low + (value - low) / (high - low) * (pixel_high - pixel_low);
  }
};

// A scale whose range is never empty.
PlotScale ScaleOf(double low, double high, double pixel_low, double pixel_high);

// <svg> ... </svg> of this size around `content`; `description` is plain text.
std::string SvgElement(double width, double height, const std::string& description,
                       const std::string& content);

// Text at a point; `anchor` is start, middle or end. `text` is plain.
std::string SvgText(double x, double y, const std::string& anchor, const std::string& text,
                    const std::string& css_class = "");

// A coordinate with two digits.
std::string Pixel(double value);

// Vertical grid lines with their numbers below `bottom`.
std::string XAxis(const PlotScale& x, double top, double bottom, const std::string& label);
// Horizontal grid lines with their numbers left of `left`.
std::string YAxis(const PlotScale& y, double left, double right, const std::string& label);

// At most `length` characters, the last an ellipsis when cut.
std::string Shorten(const std::string& text, size_t length);

}  // namespace braid

#endif  // BRAID_TRAINER_REPORT_SVG_FRAME_H_
