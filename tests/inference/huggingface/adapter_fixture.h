// Imported base models, and checkpoints with random adapters of them.
#ifndef BRAID_TESTS_INFERENCE_HUGGINGFACE_ADAPTER_FIXTURE_H_
#define BRAID_TESTS_INFERENCE_HUGGINGFACE_ADAPTER_FIXTURE_H_

#include <cmath>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "model/config/finetuning_config.h"
#include "runs/checkpoint.h"
#include "runs/checkpoint_directory.h"
#include "runs/model_path.h"
#include "tests/inference/huggingface/model_import_fixture.h"
#include "trainer/checkpoint_weights.h"
#include "trainer/training_state.h"

namespace braid {

class AdapterFixture : public ModelImportTest {
 protected:
  // Imports the golden model `name` and returns its checkpoint.
  std::string Base(const std::string& name) {
    v1::ImportRequest request = Request();
    request.set_source_dir((Golden() / name).string());
    request.set_tokenizer(TestTokenizerPath().string());
    request.set_output_dir((scratch_ / ("base-" + name)).string());
    request.set_force(true);
    return Import(request).value().output_dir();
  }

  v1::ImportRequest AdapterRequest(const std::filesystem::path& adapter, const std::string& base) {
    v1::ImportRequest request = Request();
    request.set_source_dir(adapter.string());
    request.set_base(base);
    request.set_force(true);
    return request;
  }

  // Writes a checkpoint with random adapters of a base, and returns its model.
  absl::StatusOr<std::unique_ptr<LanguageModel>> PutRandomAdapters(
      const ModelPath& base, const v1::Finetuning& finetuning,
      const std::filesystem::path& directory) {
    TrainingState state;
    ASSIGN_OR_RETURN(state.model, LanguageModel::Create(base.state.model, 3, finetuning));
    const std::vector<CheckpointTensor> tensors = BaseTensors(*state.model);
    RETURN_IF_ERROR(ReadMergedWeights(base.checkpoint, base.state, tensors));
    state.partial = PartialOf(finetuning, base.checkpoint.string(), base.state.step, tensors);
    std::mt19937 random(4);
    for (float& value : state.model->trained_values()) {
      value = random() / std::ldexp(1.0f, 32) - 0.5f;
    }
    state.moments = {0, state.model->trained_values().size()};
    state.m.assign(state.moments.size(), 0.0f);
    state.v.assign(state.moments.size(), 0.0f);
    const std::filesystem::path staging = directory.string() + ".parts";
    std::filesystem::create_directories(staging);
    RETURN_IF_ERROR(SaveState(state, staging, "random", base.checkpoint / kTokenizerFile));
    std::filesystem::rename(CheckpointPath(staging, state.step), directory);
    return std::move(state.model);
  }

  // Writes a checkpoint with random adapters of `targets` and returns its path.
  std::filesystem::path RandomAdapters(const std::string& base,
                                       const std::vector<const char*>& targets) {
    const ModelPath path = FindModel(base, true).value();
    v1::Finetuning finetuning;
    finetuning.mutable_lora()->set_rank(2);
    for (const char* target : targets) finetuning.mutable_lora()->add_targets(target);
    finetuning = ResolveFinetuning(finetuning, path.state.model).value();
    const std::filesystem::path checkpoint = scratch_ / "random";
    EXPECT_OK(PutRandomAdapters(path, finetuning, checkpoint).status());
    return checkpoint;
  }

  static std::filesystem::path Golden() { return BRAID_GOLDEN_MODELS; }
};

}  // namespace braid

#endif  // BRAID_TESTS_INFERENCE_HUGGINGFACE_ADAPTER_FIXTURE_H_
