// A Hugging Face directory "source", changes to it, and its import.
#ifndef BRAID_TESTS_INFERENCE_HUGGINGFACE_MODEL_IMPORT_FIXTURE_H_
#define BRAID_TESTS_INFERENCE_HUGGINGFACE_MODEL_IMPORT_FIXTURE_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/safetensors.h"
#include "inference/huggingface/model_export.h"
#include "inference/huggingface/model_import.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/inference/huggingface/exported_models.h"
#include "trainer/training_state.h"

namespace braid {

// A tensor of a file, which a test can change before it is written.
struct RawTensor {
  TensorInfo info;
  std::string bytes;
};

class ModelImportTest : public testing::Test {
 protected:
  // Exports the model to "source", in place of what is there.
  void PutSource(LanguageModel& model, const ExportOptions& options = {}) {
    std::filesystem::remove_all(source());
    ASSERT_OK(ExportModel(model, TestTokenizerPath(), options, source()));
  }

  void ChangeConfig(const std::function<void(nlohmann::json&)>& change) {
    nlohmann::json config = nlohmann::json::parse(GetFile(source() / "config.json"));
    change(config);
    PutFile(source() / "config.json", config.dump());
  }

  // Rewrites model.safetensors with changes.
  void ChangeTensors(const std::function<void(std::map<std::string, RawTensor>&)>& change) {
    std::map<std::string, RawTensor> tensors;
    {
      ASSERT_OK_AND_ASSIGN(auto file, SafetensorsFile::Open(source() / "model.safetensors"));
      for (const TensorInfo& info : file.tensors()) {
        tensors[info.name] = {info, std::string(*file.Bytes(info.name))};
      }
    }
    change(tensors);
    Put("model.safetensors", tensors);
  }

  void Put(const std::string& name, const std::map<std::string, RawTensor>& tensors) {
    std::vector<TensorInfo> layout;
    for (const auto& [key, tensor] : tensors) layout.push_back(tensor.info);
    ASSERT_OK_AND_ASSIGN(auto writer, SafetensorsWriter::Create(source() / name, layout, {}));
    for (const auto& [key, tensor] : tensors) ASSERT_OK(writer->Write(key, tensor.bytes));
    ASSERT_OK(writer->Commit());
  }

  v1::ImportRequest Request() const {
    v1::ImportRequest request;
    request.set_source_dir(source().string());
    request.set_output_dir((scratch_ / "imported").string());
    return request;
  }

  // Imports "source" and loads the result.
  absl::StatusOr<std::unique_ptr<LanguageModel>> ImportedModel() {
    v1::ImportRequest request = Request();
    request.set_force(true);
    const auto response = Import(request);
    if (!response.ok()) return response.status();
    return LoadModel(response->output_dir());
  }

  // Returns the error of a refused import, which must leave no files.
  std::string Refusal() {
    const auto response = Import(Request());
    EXPECT_FALSE(response.ok());
    EXPECT_FALSE(std::filesystem::exists(scratch_ / "imported"));
    EXPECT_FALSE(HoldsStaging(scratch_.path()));
    return response.status().ToString();
  }

  std::filesystem::path source() const { return scratch_ / "source"; }

  ScratchDirectory scratch_;
};

}  // namespace braid

#endif  // BRAID_TESTS_INFERENCE_HUGGINGFACE_MODEL_IMPORT_FIXTURE_H_
