#include "inference/huggingface/exported_files.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "inference/huggingface/adapter_config.h"
#include "inference/huggingface/adapter_files.h"
#include "inference/huggingface/modeling_braid.h"
#include "inference/replaceable_output.h"
#include "runs/checkpoint.h"

namespace braid {
namespace {

constexpr char kModelConfigFile[] = "config.json";
constexpr std::string_view kExportedFiles[] = {kModelConfigFile,
                                               "generation_config.json",
                                               "tokenizer_config.json",
                                               "special_tokens_map.json",
                                               "tokenizer.json",
                                               "model.safetensors",
                                               "model.safetensors.index.json",
                                               kTokenizerFile,
                                               kModelingFile,
                                               kAdapterConfigFile,
                                               kAdapterWeightsFile};

bool IsExportedFile(const std::string& name) {
  const bool part = absl::StartsWith(name, "model-") && absl::EndsWith(name, ".safetensors");
  return part || std::ranges::find(kExportedFiles, name) != std::end(kExportedFiles);
}

}  // namespace

absl::Status CheckHoldsOnlyAnExport(const std::filesystem::path& directory) {
  std::error_code error;
  if (!std::filesystem::exists(directory / kModelConfigFile, error) &&
      !std::filesystem::exists(directory / kAdapterConfigFile, error)) {
    return RefuseToReplace(directory,
                           absl::StrCat("has no ", kModelConfigFile, " or ", kAdapterConfigFile));
  }
  return CheckHoldsOnly(directory, IsExportedFile);
}

}  // namespace braid
