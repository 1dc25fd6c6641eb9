// Models with a real tokenizer, as export and import see them.
#ifndef BRAID_TESTS_INFERENCE_HUGGINGFACE_EXPORTED_MODELS_H_
#define BRAID_TESTS_INFERENCE_HUGGINGFACE_EXPORTED_MODELS_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "formats/tokenizer.h"
#include "model/language_model.h"

namespace braid {

// A SentencePiece model trained once for the program.
const std::filesystem::path& TestTokenizerPath();
const Tokenizer& TestTokenizer();

// 2 layers, D 16, 2 heads, F 24, L 40, S 8, the test tokenizer's vocabulary;
// dense for one expert.
v1::ModelConfig ExportedConfig(int num_experts);

// Every parameter random, norms too, and routers sharp.
std::unique_ptr<LanguageModel> RandomModel(const v1::ModelConfig& config, uint64_t seed = 1);

// A checkpoint of the model as training writes it.
std::filesystem::path CheckpointOf(LanguageModel& model, const std::filesystem::path& folder);

// Names and bytes of the files of a directory.
std::map<std::string, std::string> FilesOf(const std::filesystem::path& directory);

}  // namespace braid

#endif  // BRAID_TESTS_INFERENCE_HUGGINGFACE_EXPORTED_MODELS_H_
