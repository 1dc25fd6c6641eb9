// Series on numbers of experts, their loads and their similarity. All are means over the seeds of
// an arm in random order, and have no values if no run has the data.
#ifndef BRAID_REPRODUCE_SMOE_DROPOUT_ROUTING_SERIES_H_
#define BRAID_REPRODUCE_SMOE_DROPOUT_ROUTING_SERIES_H_

#include <functional>
#include <string>
#include <vector>

#include "reproduce/claim_series.h"
#include "reproduce/contrasts.h"

namespace braid {

// Returns the held-out loss in nats per token over the number of experts with which the arm was
// scored.
ClaimSeries LossByExperts(const Evidence& evidence, const std::string& arm, int32_t first_positions,
                          const SeriesFigure& figure);

// A number that a step has for each layer with experts.
using LayerNumber = double(const v1::LayerRouting&);

// Returns the number over training, averaged over layers; x is tokens.
ClaimSeries LayerCurveOf(const Evidence& evidence, const std::string& arm,
                         const SeriesFigure& figure, const std::function<LayerNumber>& number);

// Returns the number of each layer, averaged over the measurements in the last tenth of the steps.
ClaimSeries LateLayersOf(const Evidence& evidence, const std::string& arm,
                         const SeriesFigure& figure, const std::function<LayerNumber>& number);

// Returns the share of the (token, expert) pairs that each expert received in the last tenth of the
// steps, one row for each layer.
std::vector<ClaimSeries> LoadRowsOf(const Evidence& evidence, const std::string& arm,
                                    const SeriesFigure& figure);

}  // namespace braid

#endif  // BRAID_REPRODUCE_SMOE_DROPOUT_ROUTING_SERIES_H_
