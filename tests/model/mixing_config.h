// Configurations of small models whose layers mix.
#ifndef BRAID_TESTS_MODEL_MIXING_CONFIG_H_
#define BRAID_TESTS_MODEL_MIXING_CONFIG_H_

#include <gtest/gtest.h>

#include <string>

#include "google/protobuf/text_format.h"
#include "model/config/model_config.h"
#include "tests/model/random_model.h"

namespace braid {

// Returns the small model with 3 layers and, unless it is dense, 3 experts. `mixing` is a
// LayerMixing in text format: empty for none, "default" for one without fields.
inline v1::ModelConfig AskedMixingConfig(v1::Router router, const std::string& mixing) {
  v1::ModelConfig config = SmallModelConfig(router == v1::DENSE ? 1 : 3, router);
  config.set_num_layers(3);
  if (!mixing.empty()) {
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(mixing == "default" ? "" : mixing,
                                                              config.mutable_layer_mixing()));
  }
  return config;
}

// Returns the same, resolved.
inline v1::ModelConfig MixingConfig(v1::Router router, const std::string& mixing) {
  return ResolveModelConfig(AskedMixingConfig(router, mixing)).value();
}

}  // namespace braid

#endif  // BRAID_TESTS_MODEL_MIXING_CONFIG_H_
