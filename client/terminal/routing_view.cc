#include "client/terminal/routing_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "braid/v1/analysis.pb.h"
#include "client/terminal/terminal_text.h"

namespace braid {
namespace {

constexpr std::array<const char*, 5> kShades = {" ", "░", "▒", "▓", "█"};
constexpr std::array<const char*, 5> kAscii = {" ", ".", "+", "*", "#"};
constexpr int kMapColumns = 32;
constexpr int kLongestDomain = 15;
// Maximum experts named after a row, where they fit.
constexpr int kNamedExperts = 2;
constexpr int kManyExperts = 100;

// The assignment of experts to the columns of a map.
struct MapLayout {
  int experts_per_cell = 1;
  int cell_width = 1;
  int domain_width = 0;
};

MapLayout LayoutOf(const v1::RoutingAnalysis& analysis) {
  const int experts = std::max(1, analysis.num_experts());
  MapLayout layout;
  layout.experts_per_cell = (experts + kMapColumns - 1) / kMapColumns;
  const int cells = (experts + layout.experts_per_cell - 1) / layout.experts_per_cell;
  layout.cell_width = std::clamp(kMapColumns / cells, 1, 4);
  for (const v1::LayerRoutingAnalysis& layer : analysis.layers()) {
    for (const v1::DomainRouting& domain : layer.domains()) {
      layout.domain_width = std::max(layout.domain_width, static_cast<int>(domain.domain().size()));
    }
  }
  layout.domain_width = std::clamp(layout.domain_width, 6, kLongestDomain);
  return layout;
}

double LargestWeight(const v1::RoutingAnalysis& analysis) {
  double largest = 0;
  for (const v1::LayerRoutingAnalysis& layer : analysis.layers()) {
    for (const v1::DomainRouting& domain : layer.domains()) {
      for (const double weight : domain.weights()) largest = std::max(largest, weight);
    }
  }
  return largest;
}

// Returns text padded or cut to `columns` columns.
std::string Padded(std::string_view text, int columns) {
  return PadColumns(ClipColumns(text, columns), columns);
}

std::string Shade(double share, bool ascii) {
  const auto& shades = ascii ? kAscii : kShades;
  const int levels = static_cast<int>(shades.size());
  return shades[std::clamp(static_cast<int>(share * levels), 0, levels - 1)];
}

std::string MapRow(const v1::DomainRouting& domain, const MapLayout& layout, double high,
                   bool ascii) {
  std::string row;
  for (int first = 0; first < domain.weights_size(); first += layout.experts_per_cell) {
    double weight = 0;
    for (int i = 0; i < layout.experts_per_cell && first + i < domain.weights_size(); ++i) {
      weight = std::max(weight, domain.weights(first + i));
    }
    const std::string shade = Shade(high > 0 ? weight / high : 0, ascii);
    for (int i = 0; i < layout.cell_width; ++i) row += shade;
  }
  return row;
}

// Returns the numbers of experts above their cells, as many as fit.
std::string MapHeader(int num_experts, const MapLayout& layout, size_t width) {
  std::string header;
  for (int first = 0; first < num_experts; first += layout.experts_per_cell) {
    const size_t at = static_cast<size_t>(first / layout.experts_per_cell * layout.cell_width);
    if (at + absl::StrCat(first).size() > width) break;
    if (header.size() > at || (at > 0 && header.size() == at && layout.cell_width < 3)) continue;
    header.resize(at, ' ');
    absl::StrAppend(&header, first);
  }
  return header;
}

// Returns the experts with the largest weights: "6 (32 %), 1 (21 %)".
std::string Favorites(const v1::DomainRouting& domain) {
  std::vector<int> experts(static_cast<size_t>(domain.weights_size()));
  for (size_t i = 0; i < experts.size(); ++i) experts[i] = static_cast<int>(i);
  std::ranges::stable_sort(experts,
                           [&](int a, int b) { return domain.weights(a) > domain.weights(b); });
  std::string text;
  const size_t named = experts.size() > kManyExperts ? 1 : kNamedExperts;
  for (size_t i = 0; i < std::min(experts.size(), named); ++i) {
    absl::StrAppendFormat(&text, "%s%d (%.0f %%)", i > 0 ? ", " : "", experts[i],
                          100 * domain.weights(experts[i]));
  }
  return text;
}

std::string LayerTitle(const v1::LayerRoutingAnalysis& layer, int num_experts) {
  return absl::StrFormat(
      "layer %d   divergence %.3f   entropy %.2f of %.2f   effective experts %.1f of %d",
      layer.layer(), layer.divergence(), layer.entropy(), std::log(std::max(1, num_experts)),
      layer.effective_experts(), num_experts);
}

void AddMap(const v1::LayerRoutingAnalysis& layer, int num_experts, const MapLayout& layout,
            double high, bool ascii, std::vector<std::string>* lines) {
  const int cells = (num_experts + layout.experts_per_cell - 1) / layout.experts_per_cell;
  const int map_width = cells * layout.cell_width;
  lines->push_back(absl::StrCat(Padded("", layout.domain_width), "  ",
                                Padded(MapHeader(num_experts, layout, map_width), map_width),
                                "  entropy  top experts"));
  for (const v1::DomainRouting& domain : layer.domains()) {
    lines->push_back(absl::StrCat(Padded(domain.domain(), layout.domain_width), "  ",
                                  Padded(MapRow(domain, layout, high, ascii), map_width), "  ",
                                  absl::StrFormat("%7.2f  ", domain.entropy()), Favorites(domain)));
  }
}

void AddTexts(const v1::LayerRoutingAnalysis& layer, std::vector<std::string>* lines) {
  for (const v1::ExpertTexts& expert : layer.texts()) {
    for (const v1::ExpertText& text : expert.texts()) {
      std::string words = text.text();
      std::ranges::replace_if(words, absl::ascii_isspace, ' ');
      absl::RemoveExtraAsciiWhitespace(&words);
      lines->push_back(absl::StrFormat("  %3d  %.2f  %s/%d  %s", expert.expert(), text.weight(),
                                       ClipColumns(text.domain(), kLongestDomain),
                                       text.document_number(), words));
    }
  }
}

std::string Legend(double high, bool ascii) {
  const auto& shades = ascii ? kAscii : kShades;
  std::string legend = "shades:";
  for (size_t i = 1; i < shades.size(); ++i) {
    absl::StrAppendFormat(&legend, "  %s from %.0f %%", shades[i],
                          100 * high * static_cast<double>(i) / shades.size());
  }
  return legend;
}

}  // namespace

std::vector<std::string> RoutingLines(const v1::RoutingAnalysis& analysis,
                                      const RoutingViewOptions& options) {
  const MapLayout layout = LayoutOf(analysis);
  const double high = LargestWeight(analysis);
  std::vector<std::string> lines;
  for (const v1::LayerRoutingAnalysis& layer : analysis.layers()) {
    lines.push_back(LayerTitle(layer, analysis.num_experts()));
    AddMap(layer, analysis.num_experts(), layout, high, options.ascii, &lines);
    if (options.texts) {
      lines.push_back("expert  weight, domain/document, top-activating segment");
      AddTexts(layer, &lines);
    }
    lines.push_back("");
  }
  lines.push_back(Legend(high, options.ascii));
  if (layout.experts_per_cell > 1) {
    lines.push_back(absl::StrCat("each column shows the maximum of ", layout.experts_per_cell,
                                 " adjacent experts"));
  }
  for (std::string& line : lines) {
    absl::StripTrailingAsciiWhitespace(&line);
    line = ClipColumns(line, options.width);
  }
  return lines;
}

}  // namespace braid
