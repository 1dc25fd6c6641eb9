// Named model shapes.
#ifndef BRAID_MODEL_CONFIG_MODEL_PRESETS_H_
#define BRAID_MODEL_CONFIG_MODEL_PRESETS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/model.pb.h"

namespace braid {

// Returns the shape of "<size>" or "<size>/<E>E" (num_experts 1 or E; no routing field other than
// segment_length is set). InvalidArgument lists the known sizes and names the nearest.
absl::StatusOr<v1::ModelConfig> FindPreset(const std::string& name);

// Returns all sizes, each followed by its usual numbers of experts.
std::vector<std::string> ListPresets();

// Returns the size of a preset name: "7B/4E" -> "7B".
std::string PresetSize(const std::string& name);

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_MODEL_PRESETS_H_
