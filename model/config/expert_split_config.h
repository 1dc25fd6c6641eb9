// Configurations of dense models whose FFNs become experts (proto ExpertSplit), and of experts that
// can become dense FFNs again. Pure functions of the configuration.
#ifndef BRAID_MODEL_CONFIG_EXPERT_SPLIT_CONFIG_H_
#define BRAID_MODEL_CONFIG_EXPERT_SPLIT_CONFIG_H_

#include <set>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/conversion.pb.h"
#include "braid/v1/model.pb.h"

namespace braid {

// Returns whether the experts of a split can have this gate: all but RELU, whose scores are the
// weights of the experts, with which neither slices nor copies add up to the dense FFN.
bool CanChooseAmongSplit(v1::TokenRouting::Gate gate);

// Returns whether the gate of the experts has parameters that are trained.
bool HasTrainedGate(const v1::ExpertSplit& split);

// Returns the layers to split, counted from 0; all when the split lists none. InvalidArgument for a
// layer that a model of `num_layers` does not have or that is listed twice.
absl::StatusOr<std::set<int>> LayersToSplit(const v1::ExpertSplit& split, int num_layers);

// Returns the resolved configuration of a dense model, itself resolved, after the split: router
// TOKEN_CHOICE; combine weights ONES for slices, and for copies the default of the gate, which sums
// to 1. InvalidArgument for a model with experts, for those of LayersToSplit, for a gate that a
// split cannot have, and for a number of experts that does not divide d_ff, with the nearest ones
// that do.
absl::StatusOr<v1::ModelConfig> ExpertSplitConfig(const v1::ModelConfig& dense,
                                                  const v1::ExpertSplit& split);

// Checks that all experts of a resolved configuration together compute one FFN, of which they are
// slices. InvalidArgument says why not.
absl::Status CheckJoinable(const v1::ModelConfig& resolved);

// Checks that a run of a resolved configuration can be exported as a dense model
// (Finetuning.recompose): CheckJoinable, and a gate that is not trained, since the dense model has
// no place for one. InvalidArgument says why not and names a valid alternative.
absl::Status CheckRecomposable(const v1::ModelConfig& resolved);

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_EXPERT_SPLIT_CONFIG_H_
