// The page of an analysis of layers.
#ifndef BRAID_REPORT_LAYERS_PAGE_H_
#define BRAID_REPORT_LAYERS_PAGE_H_

#include <string>

namespace braid::v1 {
class LayerAnalysis;
}  // namespace braid::v1

namespace braid {

// Returns a self-contained page: the accuracy of each probe by layer, and which layers mixing
// layers choose for each task. `title` names the model, as plain text.
std::string RenderLayersPage(const v1::LayerAnalysis& analysis, const std::string& title);

}  // namespace braid

#endif  // BRAID_REPORT_LAYERS_PAGE_H_
