#include "trainer/checkpoint_weights.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "base/status_macros.h"
#include "formats/safetensors.h"
#include "model/adapter_merge.h"
#include "model/config/finetuning_config.h"
#include "model/config/head_config.h"
#include "model/config/parameter_layout.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr char kTokenHead[] = "lm_head.weight";

uint32_t ChecksumOf(const CheckpointTensor& tensor) {
  return Crc32c(AsBytes(std::span<const float>(tensor.value)));
}

absl::Status CheckSameBase(const fs::path& checkpoint, const v1::PartialCheckpoint& partial,
                           std::span<const CheckpointTensor> tensors) {
  std::map<std::string, uint32_t> expected;
  for (const v1::TensorChecksum& tensor : partial.tensors()) {
    expected[tensor.name()] = tensor.crc32c();
  }
  for (const CheckpointTensor& tensor : tensors) {
    const auto found = expected.find(tensor.name);
    const uint32_t got = ChecksumOf(tensor);
    if (found != expected.end() && found->second == got) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        partial.base().checkpoint(), ": tensor ", tensor.name, ": got checksum ", Crc32cToHex(got),
        ", expected ",
        found == expected.end() ? std::string("no such tensor") : Crc32cToHex(found->second),
        ": not the base that ", checkpoint.string(), " was trained on; restore that base"));
  }
  return absl::OkStatus();
}

// Adds the adapters that the checkpoint holds to the matrices in `tensors`.
absl::Status MergeStoredAdapters(const fs::path& checkpoint, const CheckpointState& state,
                                 std::span<const CheckpointTensor> tensors) {
  const v1::Finetuning& finetuning = state.partial.finetuning();
  std::map<std::string, std::span<float>> matrices;
  for (const CheckpointTensor& tensor : tensors) matrices[tensor.name] = tensor.value;
  const int64_t rank = finetuning.lora().rank();
  for (const AdapterSpec& spec : AdaptersOf(state.model, finetuning)) {
    const int64_t count = std::max<int64_t>(spec.experts, 1);
    std::vector<float> a(count * rank * spec.in), b(count * spec.out * rank);
    const CheckpointTensor stored[] = {{spec.a, spec.a_shape(rank), a},
                                       {spec.b, spec.b_shape(rank), b}};
    RETURN_IF_ERROR(ReadWeights(checkpoint, state, stored));
    const auto matrix = matrices.find(spec.matrix);
    BRAID_CHECK(matrix != matrices.end()) << spec.matrix;
    MergeAdapter(spec, AdapterScale(finetuning.lora()), a, b, matrix->second);
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<CheckpointTensor> BaseTensors(LanguageModel& model) {
  std::set<std::string> adapters;
  for (const AdapterSpec& spec : AdaptersOf(model.config(), model.finetuning())) {
    adapters.insert({spec.a, spec.b});
  }
  std::vector<CheckpointTensor> tensors;
  for (const Parameter& p : model.parameters()) {
    if (!adapters.contains(p.name)) tensors.push_back({p.name, p.shape, p.value});
  }
  return tensors;
}

std::vector<CheckpointTensor> HeldBy(const v1::ModelConfig& model,
                                     std::span<const CheckpointTensor> tensors) {
  std::set<std::string> names;
  for (const ParameterSpec& spec : ParameterLayout(model)) names.insert(spec.name);
  std::vector<CheckpointTensor> held;
  for (const CheckpointTensor& tensor : tensors) {
    const bool optional = tensor.name.find("layer_mixing.") != std::string::npos ||
                          tensor.name == kLabelHead || tensor.name == kTokenHead;
    if (!optional || names.contains(tensor.name)) held.push_back(tensor);
  }
  return held;
}

namespace {

// Fills `tensors`, which have the shapes of the checkpoint.
absl::Status ReadMerged(const fs::path& checkpoint, const CheckpointState& state,
                        std::span<const CheckpointTensor> tensors) {
  if (!state.partial.has_finetuning()) return ReadWeights(checkpoint, state, tensors);
  std::vector<CheckpointTensor> own(tensors.begin(), tensors.end());
  if (state.partial.has_base()) {
    RETURN_IF_ERROR(ReadBaseWeights(checkpoint, state.partial, tensors));
    std::set<std::string> trained;
    for (const ParameterSpec& spec : FinetunedLayout(state.model, state.partial.finetuning())) {
      if (spec.gradient_offset >= 0) trained.insert(spec.name);
    }
    std::erase_if(own, [&](const CheckpointTensor& t) { return !trained.contains(t.name); });
  }
  RETURN_IF_ERROR(ReadWeights(checkpoint, state, own));
  // Last, because the checksums of the base are those of its matrices without adapters.
  return MergeStoredAdapters(checkpoint, state, tensors);
}

}  // namespace

absl::Status ReadMergedWeights(const fs::path& checkpoint, const CheckpointState& state,
                               std::span<const CheckpointTensor> tensors) {
  std::vector<CheckpointTensor> whole(tensors.begin(), tensors.end());
  const auto table = std::ranges::find(whole, std::string(kPositionsName), &CheckpointTensor::name);
  const int64_t held = state.model.sequence_length();
  if (table == whole.end() || table->shape[0] >= held) {
    return ReadMerged(checkpoint, state, tensors);
  }
  // ReadWeights requires the shape of the file, so the longer table is read whole and then cut.
  const std::span<float> first = table->value;
  std::vector<float> positions(first.size() / static_cast<size_t>(table->shape[0]) *
                               static_cast<size_t>(held));
  table->shape[0] = held;
  table->value = positions;
  RETURN_IF_ERROR(ReadMerged(checkpoint, state, whole));
  std::ranges::copy(std::span(positions).first(first.size()), first.begin());
  return absl::OkStatus();
}

absl::Status ReadBaseWeights(const fs::path& checkpoint, const v1::PartialCheckpoint& partial,
                             std::span<const CheckpointTensor> tensors) {
  const fs::path base = partial.base().checkpoint();
  std::error_code error;
  if (!fs::is_directory(base, error)) {
    return absl::FailedPreconditionError(
        absl::StrCat(checkpoint.string(), " holds a part of a model whose other weights are in ",
                     base.string(), ", which does not exist; restore that directory"));
  }
  ASSIGN_OR_RETURN(const CheckpointState state, ReadCheckpointState(base));
  const std::vector<CheckpointTensor> held = HeldBy(state.model, tensors);
  RETURN_IF_ERROR(ReadMergedWeights(base, state, held));
  return CheckSameBase(checkpoint, partial, held);
}

v1::PartialCheckpoint PartialOf(const v1::Finetuning& finetuning, const std::string& base,
                                int64_t step, std::span<const CheckpointTensor> tensors) {
  v1::PartialCheckpoint partial;
  *partial.mutable_finetuning() = finetuning;
  if (finetuning.self_contained()) return partial;
  partial.mutable_base()->set_checkpoint(base);
  partial.mutable_base()->set_step(step);
  partial.mutable_base()->set_newest_step(step);
  for (const CheckpointTensor& tensor : tensors) {
    v1::TensorChecksum* const checksum = partial.add_tensors();
    checksum->set_name(tensor.name);
    checksum->set_crc32c(ChecksumOf(tensor));
  }
  return partial;
}

}  // namespace braid
