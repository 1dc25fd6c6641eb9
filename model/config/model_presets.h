// Named model shapes.
#ifndef BRAID_MODEL_CONFIG_MODEL_PRESETS_H_
#define BRAID_MODEL_CONFIG_MODEL_PRESETS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/model.pb.h"

namespace braid {

// The shape of "<size>" or "<size>/<E>E" (num_experts 1 or E, all other routing
// fields but segment_length unset). InvalidArgument lists the known sizes and
// names the nearest.
absl::StatusOr<v1::ModelConfig> FindPreset(const std::string& name);

// Sizes, each followed by its usual numbers of experts.
std::vector<std::string> ListPresets();

// "7B/4E" -> "7B".
std::string PresetSize(const std::string& name);

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_MODEL_PRESETS_H_
