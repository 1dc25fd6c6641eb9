#include "report/choice_map.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "report/heat_map.h"

namespace braid {

std::string RenderChoiceMap(const std::string& caption, const std::string& description,
                            const google::protobuf::RepeatedPtrField<v1::LayerChoices>& layers) {
  HeatMap map{.description = description,
              .column_label = "chosen layer",
              .rows = {},
              .num_columns = 0,
              .values = {},
              .low = 0,
              .high = 1,
              .column_name = "layer"};
  for (const v1::LayerChoices& layer : layers) {
    map.rows.push_back(absl::StrCat("layer ", layer.layer()));
    map.values.emplace_back(layer.shares().begin(), layer.shares().end());
    map.num_columns = std::max(map.num_columns, layer.shares_size());
  }
  return absl::StrCat("<figure><figcaption>", caption, "</figcaption>", RenderHeatMap(map),
                      "</figure>\n");
}

std::string RenderChoiceScale() {
  return RenderHeatScale(0, {.high = 1}, std::numeric_limits<double>::quiet_NaN(), "");
}

}  // namespace braid
