// adapter_config.json of the Python library PEFT: the settings of the adapters beside it.
#ifndef BRAID_INFERENCE_HUGGINGFACE_ADAPTER_CONFIG_H_
#define BRAID_INFERENCE_HUGGINGFACE_ADAPTER_CONFIG_H_

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/model.pb.h"

namespace braid {

inline constexpr char kAdapterConfigFile[] = "adapter_config.json";

struct AdapterConfig {
  v1::LoraConfig lora;  // rank, scale and dropout; targets and layers follow from the tensors
  bool labels = false;  // task_type SEQ_CLS: with a label head
  bool fan_in_fan_out = false;
};

// Parses the text of adapter_config.json, at `path` in messages. InvalidArgument names a field that
// is malformed or not supported.
absl::StatusOr<AdapterConfig> ParseAdapterConfig(std::string_view text,
                                                 const std::filesystem::path& path);

// Returns adapter_config.json for adapters of the matrices `modules` of `model`, which were trained
// on `base`.
std::string FormatAdapterConfig(const v1::LoraConfig& lora, const std::vector<std::string>& modules,
                                const v1::ModelConfig& model, const std::string& base);

}  // namespace braid

#endif  // BRAID_INFERENCE_HUGGINGFACE_ADAPTER_CONFIG_H_
