#include "model/config/model_presets.h"

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest_word.h"

namespace braid {
namespace {

struct PresetShape {
  const char* name;
  int num_layers, d_model, num_heads, d_ff, vocab_size, sequence_length, segment_length;
  std::vector<int> experts;
};

// The paper prints d_model 1526 for 1.5B, which 24 heads do not divide.
const std::vector<PresetShape>& Shapes() {
  static const auto* const shapes = new std::vector<PresetShape>{
      {"tiny", 4, 64, 2, 256, 2048, 512, 64, {8, 16, 32}},
      {"small", 6, 512, 8, 1408, 32000, 1024, 128, {8, 16, 32}},
      {"medium", 12, 768, 12, 2048, 32000, 2048, 256, {8, 16, 32}},
      {"0.3B", 24, 1024, 16, 2816, 32000, 4096, 256, {8, 16, 32}},
      {"1.5B", 48, 1536, 24, 4096, 32000, 4096, 256, {8, 16, 32}},
      {"7B", 32, 4096, 32, 11008, 32000, 4096, 256, {4}},
  };
  return *shapes;
}

absl::Status UnknownPreset(const std::string& name) {
  const std::vector<std::string> known = ListPresets();
  return absl::InvalidArgumentError(absl::StrCat("model.preset: got \"", name,
                                                 "\", expected one of ", absl::StrJoin(known, ", "),
                                                 DidYouMean(name, known)));
}

// Returns the number of experts after the slash; 1 without a slash; nullopt if malformed.
std::optional<int> ParseExperts(std::string_view name) {
  const size_t slash = name.find('/');
  if (slash == name.npos) return 1;
  int experts = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + slash + 1, end, experts);
  if (error != std::errc() || std::string_view(rest, end - rest) != "E" || experts < 2) return {};
  return experts;
}

v1::ModelConfig ToConfig(const PresetShape& shape, const std::string& name, int num_experts) {
  v1::ModelConfig config;
  config.set_preset(name);
  config.set_num_layers(shape.num_layers);
  config.set_d_model(shape.d_model);
  config.set_num_heads(shape.num_heads);
  config.set_d_ff(shape.d_ff);
  config.set_vocab_size(shape.vocab_size);
  config.set_sequence_length(shape.sequence_length);
  config.mutable_routing()->set_segment_length(shape.segment_length);
  config.mutable_routing()->set_num_experts(num_experts);
  return config;
}

}  // namespace

std::string PresetSize(const std::string& name) { return name.substr(0, name.find('/')); }

std::vector<std::string> ListPresets() {
  std::vector<std::string> names;
  for (const PresetShape& shape : Shapes()) {
    names.push_back(shape.name);
    for (int experts : shape.experts) names.push_back(absl::StrCat(shape.name, "/", experts, "E"));
  }
  return names;
}

absl::StatusOr<v1::ModelConfig> FindPreset(const std::string& name) {
  const std::optional<int> experts = ParseExperts(name);
  for (const PresetShape& shape : Shapes()) {
    if (experts && PresetSize(name) == shape.name) return ToConfig(shape, name, *experts);
  }
  return UnknownPreset(name);
}

}  // namespace braid
