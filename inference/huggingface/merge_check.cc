#include "inference/huggingface/merge_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/crc32c.h"
#include "base/status_macros.h"
#include "formats/half_float.h"
#include "formats/safetensors.h"
#include "formats/weight_files.h"
#include "inference/huggingface/config_json.h"
#include "inference/huggingface/file_tensor.h"
#include "inference/huggingface/imported_checkpoint.h"
#include "model/config/finetuning_config.h"
#include "model/config/parameter_layout.h"
#include "model/language_model.h"
#include "trainer/checkpoint_weights.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kComparedTokens = 64;

// Loads the model of a checkpoint with its adapters beside the weights, as in training.
absl::StatusOr<std::unique_ptr<LanguageModel>> LoadUnmerged(const ModelPath& path) {
  const v1::PartialCheckpoint& partial = path.state.partial;
  ASSIGN_OR_RETURN(auto model,
                   LanguageModel::Create(path.state.model, /*seed=*/0, partial.finetuning()));
  if (partial.has_base()) {
    RETURN_IF_ERROR(ReadBaseWeights(path.checkpoint, partial, BaseTensors(*model)));
  }
  std::vector<CheckpointTensor> own;
  for (const Parameter& p : model->parameters()) {
    if (!partial.has_base() || !p.gradient.empty()) own.push_back({p.name, p.shape, p.value});
  }
  RETURN_IF_ERROR(ReadWeights(path.checkpoint, path.state, own));
  return model;
}

// Loads the model in a Hugging Face directory.
absl::StatusOr<std::unique_ptr<LanguageModel>> ReadBack(const fs::path& directory) {
  const fs::path file = directory / "config.json";
  ASSIGN_OR_RETURN(const std::string text, ReadFile(file));
  ASSIGN_OR_RETURN(const v1::ModelConfig config, ParseConfigJson(text, file));
  ASSIGN_OR_RETURN(const WeightFiles weights, WeightFiles::Open(directory));
  ASSIGN_OR_RETURN(auto model, LanguageModel::Create(config, /*seed=*/std::nullopt));
  const std::vector<ParameterSpec> layout = ParameterLayout(config);
  for (const ParameterSpec& spec : layout) {
    std::span<float> place =
        std::ranges::find(model->parameters(), spec.name, &Parameter::name)->value;
    for (const FileTensor& tensor : FileTensorsOf(config, spec)) {
      RETURN_IF_ERROR(ReadParameterPart(weights, tensor, [&](std::span<const float> values) {
        std::ranges::copy(values, place.begin());
        place = place.subspan(values.size());
        return absl::OkStatus();
      }));
    }
  }
  return model;
}

// Returns the logits of the tokens. All experts take part, because a choice among them may change
// with the last bit of a weight.
absl::StatusOr<std::vector<float>> LogitsOf(LanguageModel& model, std::span<const int32_t> tokens) {
  const v1::RoutingConfig& routing = model.config().routing();
  if (routing.router() == v1::TOKEN_CHOICE) {
    RETURN_IF_ERROR(model.SetActiveExperts(routing.num_experts()));
  }
  return model.Logits(tokens, /*batch_size=*/1);
}

// Returns the checksum of values as a file of this type holds them.
uint32_t RoundedChecksum(std::span<const float> values, DType dtype) {
  std::vector<float> rounded(values.begin(), values.end());
  for (float& value : rounded) {
    if (dtype == DType::kBF16) value = FloatFromBf16(Bf16FromFloat(value));
    if (dtype == DType::kF16) value = FloatFromF16(F16FromFloat(value));
  }
  return Crc32c(AsBytes(std::span<const float>(rounded)));
}

}  // namespace

absl::StatusOr<MergeCheck> MergeCheck::Create(const ModelPath& path, DType dtype) {
  MergeCheck check(path.state.model, dtype);
  const int32_t count = std::min(kComparedTokens, check.config_.sequence_length());
  for (int32_t i = 0; i < count; ++i) {
    check.tokens_.push_back(
        static_cast<int32_t>((int64_t{7919} * i + 5) % check.config_.vocab_size()));
  }
  ASSIGN_OR_RETURN(const auto model, LoadUnmerged(path));
  for (const AdapterSpec& spec : AdaptersOf(model->config(), model->finetuning())) {
    const auto matrix = std::ranges::find(model->parameters(), spec.matrix, &Parameter::name);
    check.adapted_[spec.matrix] = RoundedChecksum(matrix->value, dtype);
  }
  ASSIGN_OR_RETURN(check.logits_, LogitsOf(*model, check.tokens_));
  return check;
}

double MergeCheck::bound() const {
  if (dtype_ == DType::kF32) return 1e-4;
  const v1::Router router = config_.routing().router();
  if (router == v1::EXPERT_CHOICE_SEGMENT || router == v1::EXPERT_CHOICE_TOKEN ||
      config_.has_layer_mixing()) {
    return std::numeric_limits<double>::infinity();
  }
  return dtype_ == DType::kF16 ? 0.01 : 0.05;
}

absl::Status MergeCheck::Compare(const fs::path& directory, v1::ExportResponse* response) const {
  absl::StatusOr<std::unique_ptr<LanguageModel>> model = ReadBack(directory);
  if (!model.ok()) {
    return absl::DataLossError(
        absl::StrCat("the merged model cannot be read back, so it was not published: ",
                     model.status().message()));
  }
  ASSIGN_OR_RETURN(const std::vector<float> logits, LogitsOf(**model, tokens_));
  double largest = logits.size() == logits_.size() ? 0 : std::numeric_limits<double>::quiet_NaN();
  for (size_t i = 0; i < logits_.size() && !std::isnan(largest); ++i) {
    const double difference = std::abs(double{logits[i]} - double{logits_[i]});
    if (!(difference <= largest)) largest = difference;
  }
  const auto [least, most] = std::ranges::minmax(logits_);
  const double range = double{most} - double{least};
  if (range > 0) largest /= range;
  if (!(largest <= bound())) {
    return absl::DataLossError(absl::StrFormat(
        "%s: the logits of the merged model differ from those of the model with its adapters by "
        "%.1e of their range, expected at most %.0e, so it was not published; export the adapters "
        "with --adapter",
        directory.string(), largest, bound()));
  }
  int32_t merged = 0;
  for (const auto& [name, checksum] : adapted_) {
    const auto matrix = std::ranges::find((*model)->parameters(), name, &Parameter::name);
    // Experts that were put together have other names.
    const bool found = matrix != (*model)->parameters().end();
    merged += !found || RoundedChecksum(matrix->value, dtype_) != checksum;
  }
  response->set_num_merged_tensors(merged);
  response->set_max_logit_difference(largest);
  return absl::OkStatus();
}

}  // namespace braid
