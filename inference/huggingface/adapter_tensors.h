// The adapters of a model as tensors of PEFT: their names, and the one adapter that it has for the
// q, k and v of a GPT-2, which are one matrix there (c_attn) with one A. Private to
// inference/huggingface/.
#ifndef BRAID_INFERENCE_HUGGINGFACE_ADAPTER_TENSORS_H_
#define BRAID_INFERENCE_HUGGINGFACE_ADAPTER_TENSORS_H_

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "braid/v1/model.pb.h"
#include "formats/weight_files.h"
#include "model/language_model.h"

namespace braid {

inline constexpr char kPeftLabelHead[] = "base_model.model.score.weight";

struct AdapterTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> value;
};

struct AdapterFile {
  v1::LoraConfig lora;  // the rank and alpha that the file states
  std::vector<std::string> modules;
  std::vector<AdapterTensor> tensors;
};

// Returns the file of the adapters `own`, which have the names and shapes of FinetunedLayout, with
// the label head if it is among them. The file computes the same: where the A of q, k and v of a
// GPT-2 differ, its rank is n times that of the n of them with adapters, and its alpha is n times
// (with rs_lora sqrt(n) times) theirs, so that the scale stays. The A of c_attn is then theirs, one
// after the other, and its B has each of theirs in its own rows and columns; the other adapters are
// filled up with zeros.
AdapterFile AdapterFileOf(const v1::ModelConfig& resolved, const v1::Finetuning& finetuning,
                          std::span<const AdapterTensor> own);

// Sets targets and layers to those of the tensors, whose names are
// base_model.model.model.layers.L.BLOCK.TARGET_proj.lora_A.weight, or lora_B; for GPT-2
// base_model.model.transformer.h.L.BLOCK.MODULE.lora_A.weight. InvalidArgument for other names, but
// the label head of `resolved`, and for layers that it does not have.
absl::Status FindTargets(const std::filesystem::path& file, const WeightFiles& weights,
                         const v1::ModelConfig& resolved, v1::LoraConfig* lora);

// Reads what `model` trains. Each of q, k and v of a GPT-2 has its own copy of the A of c_attn.
// InvalidArgument unless every adapter of the model is in the file, and nothing else.
absl::Status FillAdapters(const std::filesystem::path& file, const WeightFiles& weights,
                          LanguageModel& model);

// Returns InvalidArgument: "FILE: tensor NAME: PROBLEM".
absl::Status BadAdapterTensor(const std::filesystem::path& file, const std::string& name,
                              const std::string& problem);

}  // namespace braid

#endif  // BRAID_INFERENCE_HUGGINGFACE_ADAPTER_TENSORS_H_
