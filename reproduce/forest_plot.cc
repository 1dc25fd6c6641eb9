#include "reproduce/forest_plot.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "report/html_text.h"
#include "report/plot_series.h"
#include "report/svg_frame.h"
#include "reproduce/effect_text.h"
#include "reproduce/verdict_mark.h"

namespace braid {
namespace {

constexpr double kTop = 6, kBottom = 44, kGroupHeight = 24, kEdge = 8;
constexpr double kLabelSize = 11, kGroupSize = 12;
// Distance of the lines of labels and group names.
constexpr double kLineHeight = 14;
constexpr size_t kMostLines = 3;
// Distance of the rings of seeds below the interval.
constexpr double kSeedDrop = 7;
constexpr double kIntervalCap = 3;  // half the height

// The positions of the parts of a row. On wide pages the label is left of the plot and the numbers
// are right of it; on narrow pages both are above the plot.
struct Layout {
  bool wide = true;
  double width = 0;
  double row_height = 0;
  // Distance from the top of a row to its interval.
  double dot = 0;
  // Width at which a label is broken into lines.
  double label_width = 0;
  double left = 0, right = 0;
};

bool IsMeasured(const ForestRow& row) {
  return row.part.estimate && std::isfinite(row.part.estimate->effect);
}

// Returns the number of characters of mean width that fit into `width`.
double LineLength(double width, double font_size) { return width / TextWidth("x", font_size); }

// Breaks the text between words into lines of at most `width`. The last of at most kMostLines is
// cut.
std::vector<std::string> Lines(const std::string& text, double width, double font_size) {
  std::vector<std::string> lines;
  std::string line;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    const std::string longer = absl::StrCat(line, line.empty() ? "" : " ", word);
    const bool fits = line.empty() || TextWidth(longer, font_size) <= width;
    if (!fits && lines.size() + 1 < kMostLines) {
      lines.push_back(Shorten(line, LineLength(width, font_size)));
      line = std::string(word);
    } else {
      line = longer;
    }
  }
  lines.push_back(Shorten(line, LineLength(width, font_size)));
  return lines;
}

std::string NumbersOf(const ClaimPart& part) {
  const std::string interval = IntervalText(*part.estimate);
  return absl::StrCat(EffectNumber(part.estimate->effect), interval.empty() ? "" : " ", interval);
}

std::string VerdictText(const ClaimPart& part) {
  return part.rule ? VerdictName(part.verdict) : "";
}

Layout WideLayout(const ForestPlot& plot) {
  Layout layout{.width = 860, .row_height = 24, .dot = 10, .label_width = 330};
  double labels = 0, numbers = 0, verdicts = 0;
  for (const ForestRow& row : plot.rows) {
    for (const std::string& line : Lines(row.part.name, layout.label_width, kLabelSize)) {
      labels = std::max(labels, TextWidth(line, kLabelSize));
    }
    if (IsMeasured(row)) numbers = std::max(numbers, TextWidth(NumbersOf(row.part), kLabelSize));
    verdicts = std::max(verdicts, TextWidth(VerdictText(row.part), kLabelSize));
  }
  layout.left = kEdge + labels + 14;
  layout.right = layout.width - numbers - verdicts - 34;
  return layout;
}

Layout NarrowLayout() {
  return {.wide = false,
          .width = 370,
          .row_height = 36,
          .dot = 22,
          .label_width = 270,
          .left = kEdge + 6,
          .right = 370 - kEdge - 6};
}

void IncludeRule(const VerdictRule& rule, PlotRange* range) {
  if (rule.kind != EffectRule::kNotInferior) range->Include(rule.margin);
  if (rule.kind != EffectRule::kPositive) range->Include(-rule.margin);
}

PlotRange RangeOf(const ForestPlot& plot) {
  PlotRange range;
  for (const ForestRow& row : plot.rows) {
    if (!IsMeasured(row)) continue;
    const EffectEstimate& estimate = *row.part.estimate;
    range.Include(0);
    range.Include(estimate.effect);
    for (const double value : estimate.by_seed) range.Include(value);
    if (row.part.rule) IncludeRule(*row.part.rule, &range);
    if (!HasInterval(estimate)) continue;
    range.Include(estimate.low - SeedAllowance(row.part));
    range.Include(estimate.high + SeedAllowance(row.part));
  }
  if (range.empty()) return range;
  const double margin = 0.03 * (range.high - range.low);
  return {range.low - margin, range.high + margin};
}

// A row and its position.
struct PlacedRow {
  const ForestRow& row;
  std::vector<std::string> label;
  double top = 0;
  // Height of the lines of the label after the first.
  double more = 0;
};

PlacedRow Place(const ForestRow& row, const Layout& layout, double top) {
  PlacedRow placed{
      .row = row, .label = Lines(row.part.name, layout.label_width, kLabelSize), .top = top};
  placed.more = kLineHeight * static_cast<double>(placed.label.size() - 1);
  return placed;
}

// Returns the y of the interval: below the label on narrow pages, at its middle on wide pages.
double MiddleOf(const PlacedRow& placed, const Layout& layout) {
  return placed.top + layout.dot + (layout.wide ? placed.more / 2 : placed.more);
}

std::string Margin(const PlacedRow& placed, const Layout& layout, const PlotScale& x) {
  if (!placed.row.part.rule) return "";
  PlotRange range;
  range.Include(0);
  IncludeRule(*placed.row.part.rule, &range);
  const double above = layout.wide ? 0 : 15 + placed.more;
  return SvgRectangle(x(range.low), placed.top + above, x(range.high) - x(range.low),
                      layout.row_height + placed.more - above, "class=\"margin\"", "");
}

std::string Interval(const ClaimPart& part, const PlotScale& x, double y) {
  if (!HasInterval(*part.estimate)) return "";
  const double low = part.estimate->low, high = part.estimate->high;
  const double allowance = SeedAllowance(part);
  std::string out = SvgInterval(x, low, high, y, "range", kIntervalCap);
  if (allowance > 0) {
    out += SvgInterval(x, low - allowance, low, y, "allowance") +
           SvgInterval(x, high, high + allowance, y, "allowance");
  }
  return out;
}

std::string Seeds(const EffectEstimate& estimate, const PlotScale& x, double y) {
  std::string out;
  if (estimate.by_seed.size() < 2) return out;
  for (const double value : estimate.by_seed) {
    if (!std::isfinite(value)) continue;
    absl::StrAppend(&out, "<circle class=\"seed\" cx=\"", Pixel(x(value)), "\" cy=\"", Pixel(y),
                    "\" r=\"2.2\"/>");
  }
  return out;
}

std::string TitleOf(const ClaimPart& part) {
  std::string title = absl::StrCat(part.name, ": ", NumbersOf(part), " ", part.unit);
  if (part.rule) absl::StrAppend(&title, ", ", VerdictName(part.verdict));
  return absl::StrCat("<title>", EscapeHtml(title), "</title>");
}

std::string EffectOf(const ClaimPart& part, const PlotScale& x, double y) {
  const Verdict shape = part.rule ? part.verdict : Verdict::kShown;
  return absl::StrCat("<g class=\"", part.rule ? VerdictClass(part.verdict) : "reported", "\">",
                      TitleOf(part), Interval(part, x, y), Seeds(*part.estimate, x, y + kSeedDrop),
                      VerdictShape(shape, x(part.estimate->effect), y), "</g>");
}

std::string TextLines(const std::vector<std::string>& lines, double first,
                      const std::string& css_class) {
  std::string out;
  for (size_t i = 0; i < lines.size(); ++i) {
    out +=
        SvgText(kEdge, first + kLineHeight * static_cast<double>(i), "start", lines[i], css_class);
  }
  return out;
}

std::string Texts(const PlacedRow& placed, const Layout& layout) {
  const ForestRow& row = placed.row;
  const double first = placed.top + (layout.wide ? layout.dot + 4 : 12);
  const std::string label = TextLines(placed.label, first, "label over");
  const bool measured = IsMeasured(row);
  if (!layout.wide) {
    const std::string number = measured ? EffectNumber(row.part.estimate->effect) : "not measured";
    return label + SvgText(layout.width - kEdge, first, "end", number,
                           measured ? "label over" : "faint over");
  }
  const double y = MiddleOf(placed, layout) + 4;
  if (!measured)
    return label + SvgText(layout.right + 14, y, "start", "not measured", "faint over");
  return absl::StrCat(label,
                      SvgText(layout.right + 14, y, "start", NumbersOf(row.part), "label over"),
                      SvgText(layout.width - kEdge, y, "end", VerdictText(row.part), "faint over"));
}

struct Rows {
  std::string margins;  // in the background of the grid
  std::string marks;
  double bottom = kTop;
};

void AddGroup(const std::string& group, const Layout& layout, Rows* rows) {
  const auto lines = Lines(group, layout.width - 2 * kEdge, kGroupSize);
  rows->marks += TextLines(lines, rows->bottom + 16, "group over");
  rows->bottom += kGroupHeight + kLineHeight * static_cast<double>(lines.size() - 1);
}

Rows PlaceRows(const ForestPlot& plot, const Layout& layout, const PlotScale& x) {
  Rows rows;
  std::string group;
  for (const ForestRow& row : plot.rows) {
    if (row.group != group) {
      group = row.group;
      AddGroup(group, layout, &rows);
    }
    const PlacedRow placed = Place(row, layout, rows.bottom);
    rows.margins += Margin(placed, layout, x);
    rows.marks += Texts(placed, layout);
    if (IsMeasured(row)) rows.marks += EffectOf(row.part, x, MiddleOf(placed, layout));
    rows.marks += "\n";
    rows.bottom += layout.row_height + placed.more;
  }
  return rows;
}

std::string Draw(const ForestPlot& plot, const Layout& layout, const PlotRange& range) {
  const PlotScale x = ScaleOf(range.low, range.high, layout.left, layout.right);
  const Rows rows = PlaceRows(plot, layout, x);
  return SvgElement(layout.width, rows.bottom + kBottom, plot.description,
                    absl::StrCat(rows.margins, XAxis(x, kTop, rows.bottom, plot.x_label),
                                 SvgLine(x(0), kTop, x(0), rows.bottom, "axis"), rows.marks));
}

std::string KeyItem(const std::string& svg, const std::string& text) {
  return absl::StrCat("<span><svg aria-hidden=\"true\" viewBox=\"0 0 34 12\">", svg, "</svg>", text,
                      "</span>\n");
}

}  // namespace

std::string RenderForestPlot(const ForestPlot& plot) {
  const PlotRange range = RangeOf(plot);
  if (range.empty()) return "";
  return ForWidth(Draw(plot, WideLayout(plot), range), Draw(plot, NarrowLayout(), range));
}

std::string RenderForestKey(const ForestKey& key) {
  std::string out = "<p class=\"key\">";
  for (const Verdict verdict : {Verdict::kShown, Verdict::kNotShown, Verdict::kInconclusive}) {
    out += KeyItem(absl::StrCat("<g class=\"", VerdictClass(verdict),
                                "\"><path class=\"range\" d=\"M3 6H31\"/>",
                                VerdictShape(verdict, 17, 6), "</g>"),
                   VerdictName(verdict));
  }
  out += KeyItem(
      "<g class=\"reported\"><path class=\"range\" d=\"M3 6H31\"/><circle class=\"dot\" cx=\"17\" "
      "cy=\"6\" r=\"4\"/></g>",
      "not judged");
  if (key.allowance) {
    out += KeyItem("<g class=\"reported\"><path class=\"allowance\" d=\"M3 6H31\"/></g>",
                   "allowance for one seed");
  }
  if (key.single_seeds) {
    out += KeyItem(
        "<g class=\"reported\"><circle class=\"seed\" cx=\"9\" cy=\"6\" r=\"2.2\"/>"
        "<circle class=\"seed\" cx=\"22\" cy=\"6\" r=\"2.2\"/></g>",
        "single seeds");
  }
  return absl::StrCat(out,
                      KeyItem("<rect class=\"margin\" x=\"4\" y=\"0\" width=\"26\" height=\"12\"/>",
                              "margin of the rule"),
                      "</p>\n");
}

}  // namespace braid
