// Models with a real tokenizer, for tests of export and import.
#ifndef BRAID_TESTS_INFERENCE_HUGGINGFACE_EXPORTED_MODELS_H_
#define BRAID_TESTS_INFERENCE_HUGGINGFACE_EXPORTED_MODELS_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "formats/tokenizer.h"
#include "model/language_model.h"

namespace braid {

// Returns the path of a SentencePiece model that is trained once per program.
const std::filesystem::path& TestTokenizerPath();
const Tokenizer& TestTokenizer();

// Returns a configuration with 2 layers, D 16, 2 heads, F 24, L 40, S 8 and the test tokenizer's
// vocabulary; dense for one expert.
v1::ModelConfig ExportedConfig(int num_experts);

// Returns dense configurations of the same size for every architecture that is exported under a
// name of its own or with fields of its own: LLaMA, tied LLaMA 3, linear RoPE, Qwen2, Qwen3; and an
// expert model with each kind of attention.
std::vector<v1::ModelConfig> ExportedArchitectures();

// Returns the configuration of a dense GPT-2 of the same size.
v1::ModelConfig ExportedGpt2();

// Returns a model whose parameters, including norms, are random and whose routers are sharp.
std::unique_ptr<LanguageModel> RandomModel(const v1::ModelConfig& config, uint64_t seed = 1);

// Writes a checkpoint of the model in the same way as training.
std::filesystem::path CheckpointOf(LanguageModel& model, const std::filesystem::path& folder);

// Returns whether an export or import has left its staging directory in `directory`.
bool HoldsStaging(const std::filesystem::path& directory);

// Returns names and contents of the files of a directory.
std::map<std::string, std::string> FilesOf(const std::filesystem::path& directory);

}  // namespace braid

#endif  // BRAID_TESTS_INFERENCE_HUGGINGFACE_EXPORTED_MODELS_H_
