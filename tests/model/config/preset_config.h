// Configurations of presets and from text, for tests of what they resolve to.
#ifndef BRAID_TESTS_MODEL_CONFIG_PRESET_CONFIG_H_
#define BRAID_TESTS_MODEL_CONFIG_PRESET_CONFIG_H_

#include <gtest/gtest.h>

#include <string>

#include "google/protobuf/text_format.h"
#include "model/config/model_config.h"

namespace braid {

inline v1::ModelConfig PresetConfig(const std::string& name) {
  v1::ModelConfig config;
  config.set_preset(name);
  return config;
}

inline v1::DescribeModelResponse DescribePreset(const std::string& preset) {
  return DescribeModel(ResolveModelConfig(PresetConfig(preset)).value());
}

// Returns a configuration in text format.
inline v1::ModelConfig ConfigFromText(const std::string& text) {
  v1::ModelConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config));
  return config;
}

// Returns the message of InvalidArgument of a configuration that cannot be resolved.
inline std::string ResolveError(const v1::ModelConfig& config) {
  const auto resolved = ResolveModelConfig(config);
  EXPECT_EQ(resolved.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(resolved.status().message());
}

}  // namespace braid

#endif  // BRAID_TESTS_MODEL_CONFIG_PRESET_CONFIG_H_
