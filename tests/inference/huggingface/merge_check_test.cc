// Exports of models whose adapters are merged: what they report, and that wrong ones are not
// published.
#include "inference/huggingface/merge_check.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include "runs/model_path.h"
#include "tests/inference/huggingface/adapter_fixture.h"

namespace braid {
namespace merge_check_test {

namespace fs = std::filesystem;

class MergeCheckTest : public AdapterFixture {
 protected:
  static v1::ExportRequest MergeRequest(const std::string& model,
                                        const std::filesystem::path& output) {
    v1::ExportRequest request;
    request.set_model(model);
    request.set_output_dir(output.string());
    request.set_merge(true);
    request.set_force(true);
    return request;
  }
};

TEST_F(MergeCheckTest, MergedExportsReportWhatTheyChangedAndTheirLargestDifference) {
  SetModelThreads(1);
  for (const char* name : {"llama2", "llama3", "gpt2"}) {
    const std::string checkpoint = RandomAdapters(Base(name), {"q", "down"}).string();
    for (const auto& [dtype, bound] :
         {std::pair("float32", 1e-4), {"float16", 0.01}, {"bfloat16", 0.05}}) {
      v1::ExportRequest request = MergeRequest(checkpoint, scratch_ / "merged");
      request.set_dtype(dtype);
      ASSERT_OK_AND_ASSIGN(const v1::ExportResponse response, Export(request));
      EXPECT_EQ(response.num_merged_tensors(), 2 * 2) << name << " " << dtype;
      EXPECT_LE(response.max_logit_difference(), bound) << name << " " << dtype;
      EXPECT_GT(response.max_logit_difference(), 0);
    }
    fs::remove_all(checkpoint);
  }
  v1::ExportRequest plain = MergeRequest(Base("llama2"), scratch_ / "plain");
  EXPECT_FAILS(Export(plain), absl::StatusCode::kInvalidArgument, "holds no adapters to merge",
               "without --merge");
  plain.set_adapter(true);
  EXPECT_FAILS(Export(plain), absl::StatusCode::kInvalidArgument, "merge: got adapter too");
}

TEST_F(MergeCheckTest, WrongMergesAreNotPublished) {
  SetModelThreads(1);
  const std::string base = Base("llama2");
  const std::string checkpoint = RandomAdapters(base, {"q", "v"}).string();
  ASSERT_OK(Export(MergeRequest(checkpoint, source())));
  const ModelPath path = FindModel(checkpoint, true).value();
  ASSERT_OK_AND_ASSIGN(const MergeCheck check, MergeCheck::Create(path, DType::kF32));
  v1::ExportResponse response;
  ASSERT_OK(check.Compare(source(), &response));
  EXPECT_EQ(response.num_merged_tensors(), 2 * 2);
  // One element of a merged matrix is wrong.
  ChangeTensors([](auto& tensors) {
    std::string& bytes = tensors.at("model.layers.1.self_attn.v_proj.weight").bytes;
    float value;
    std::memcpy(&value, &bytes[4 * 7], sizeof value);
    value += 0.05f;
    std::memcpy(&bytes[4 * 7], &value, sizeof value);
  });
  EXPECT_FAILS(check.Compare(source(), &response), absl::StatusCode::kDataLoss,
               "the logits of the merged model differ", "expected at most 1e-04");
  // A merge that changes nothing.
  v1::ExportRequest plain = MergeRequest(base, source());
  plain.set_merge(false);
  ASSERT_OK(Export(plain));
  EXPECT_FAILS(check.Compare(source(), &response), absl::StatusCode::kDataLoss, "differ");
  // A tensor that cannot be read.
  ChangeTensors([](auto& tensors) { tensors.erase("model.norm.weight"); });
  EXPECT_FAILS(check.Compare(source(), &response), absl::StatusCode::kDataLoss,
               "cannot be read back", "model.norm.weight");
  // The error of a check keeps the files from being published.
  const auto model = LoadModel(base).value();
  ExportOptions options;
  options.check = [](const fs::path& directory, v1::ExportResponse*) {
    EXPECT_TRUE(fs::exists(directory / "model.safetensors"));
    return absl::DataLossError("wrong");
  };
  EXPECT_FAILS(ExportModel(*model, TestTokenizerPath(), options, scratch_ / "none"),
               absl::StatusCode::kDataLoss, "wrong");
  EXPECT_FALSE(fs::exists(scratch_ / "none"));
}

}  // namespace merge_check_test
}  // namespace braid
