// Adapters as files of PEFT: written by it (tests/peers/peft_golden.py), read, used and written.
#include "inference/huggingface/adapter_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "formats/npy.h"
#include "inference/model_conversion.h"
#include "model/config/finetuning_config.h"
#include "runs/model_path.h"
#include "tests/base/largest_difference.h"
#include "tests/inference/huggingface/adapter_fixture.h"

namespace braid {
namespace adapter_files_test {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class AdapterFilesTest : public AdapterFixture {
 protected:
  // Exports the adapters of `model` to again/ and compares their tensors with those of `golden`.
  void ExpectExportedAs(const std::filesystem::path& golden, const std::string& model) {
    v1::ExportRequest again;
    again.set_model(model);
    again.set_output_dir((scratch_ / "again").string());
    again.set_adapter(true);
    again.set_force(true);
    ASSERT_OK(Export(again));
    ASSERT_OK_AND_ASSIGN(const auto before, SafetensorsFile::Open(golden / kAdapterWeightsFile));
    ASSERT_OK_AND_ASSIGN(const auto after,
                         SafetensorsFile::Open(scratch_ / "again" / kAdapterWeightsFile));
    ASSERT_EQ(after.tensors().size(), before.tensors().size());
    for (const TensorInfo& tensor : before.tensors()) {
      ASSERT_NE(after.Find(tensor.name), nullptr) << tensor.name;
      EXPECT_EQ(*after.Bytes(tensor.name), *before.Bytes(tensor.name)) << tensor.name;
    }
  }
};

TEST_F(AdapterFilesTest, AdaptersOfPeftGiveItsLogitsAndTheirOwnFiles) {
  SetModelThreads(1);
  std::vector<int32_t> tokens;
  for (int i = 0; i < 9; ++i) tokens.push_back((37 * i + 5) % 280);
  for (const char* name : {"llama2", "qwen2", "gpt2"}) {
    SCOPED_TRACE(name);
    const fs::path golden = Golden() / (std::string(name) + "-adapter");
    const std::string base = Base(name);
    ASSERT_OK_AND_ASSIGN(const auto imported, Import(AdapterRequest(golden, base)));
    ASSERT_OK_AND_ASSIGN(const auto model, LoadModel(imported.output_dir()));
    ASSERT_OK_AND_ASSIGN(const std::vector<float> logits, model->Logits(tokens, 1));
    ASSERT_OK_AND_ASSIGN(const auto expected, NpyArray<float>::Open(golden / "logits.npy"));
    ASSERT_OK_AND_ASSIGN(const auto plain, LoadModel(base)->get()->Logits(tokens, 1));
    ASSERT_EQ(logits.size(), expected.values().size());
    double range = 0;
    for (const float value : expected.values()) range = std::max<double>(range, std::abs(value));
    EXPECT_LT(LargestDifference(logits, expected.values()), 1e-5 * range);
    EXPECT_GT(LargestDifference(logits, plain), 1e-2 * range) << "the adapter has an effect";

    ExpectExportedAs(golden, imported.output_dir());
    const Json theirs = Json::parse(GetFile(golden / kAdapterConfigFile));
    const Json ours = Json::parse(GetFile(scratch_ / "again" / kAdapterConfigFile));
    for (const char* field : {"peft_type", "task_type", "r", "lora_alpha", "lora_dropout", "bias",
                              "use_rslora", "fan_in_fan_out", "layers_to_transform"}) {
      EXPECT_EQ(ours.value(field, Json()), theirs.value(field, Json())) << field;
    }
    // The default export is the merged model, which needs neither the base nor the adapter.
    v1::ExportRequest whole;
    whole.set_model(imported.output_dir());
    whole.set_output_dir((scratch_ / "merged").string());
    whole.set_force(true);
    ASSERT_OK(Export(whole));
    v1::ImportRequest merged = Request();
    merged.set_source_dir((scratch_ / "merged").string());
    merged.set_output_dir((scratch_ / "merged-checkpoint").string());
    merged.set_force(true);
    ASSERT_OK_AND_ASSIGN(const auto back, Import(merged));
    ASSERT_OK_AND_ASSIGN(const auto stock, LoadModel(back.output_dir()));
    ASSERT_OK_AND_ASSIGN(const std::vector<float> stock_logits, stock->Logits(tokens, 1));
    for (size_t i = 0; i < logits.size(); ++i) {
      ASSERT_NEAR(stock_logits[i], logits[i], 1e-4 * range);
    }
  }
}

// The adapters of a GPT-2 that braid trains have an A each for q, k and v, which a file of PEFT
// holds as one adapter of higher rank.
TEST_F(AdapterFilesTest, AdaptersWithTheirOwnInputsAreOneOfPeftOnGpt2) {
  SetModelThreads(1);
  const std::vector<int32_t> tokens = {5, 42, 79, 116, 153, 190};
  const std::string base = Base("gpt2");
  const ModelPath path = FindModel(base, true).value();
  int number = 0;
  for (const bool rs_lora : {false, true}) {
    for (const std::vector<const char*>& targets :
         {std::vector{"q", "v", "o"}, {"q", "k", "v"}, {"k", "down"}}) {
      v1::Finetuning finetuning;
      finetuning.mutable_lora()->set_rank(2);
      finetuning.mutable_lora()->set_alpha(7);
      finetuning.mutable_lora()->set_rs_lora(rs_lora);
      for (const char* target : targets) finetuning.mutable_lora()->add_targets(target);
      finetuning = ResolveFinetuning(finetuning, path.state.model).value();
      const fs::path checkpoint = scratch_ / absl::StrCat("own-", number++);
      ASSERT_OK_AND_ASSIGN(const auto model, PutRandomAdapters(path, finetuning, checkpoint));
      ASSERT_OK_AND_ASSIGN(const std::vector<float> expected, model->Logits(tokens, 1));
      v1::ExportRequest request;
      request.set_model(checkpoint.string());
      request.set_output_dir((scratch_ / "own-adapter").string());
      request.set_adapter(true);
      request.set_force(true);
      ASSERT_OK(Export(request));
      const Json config = Json::parse(GetFile(scratch_ / "own-adapter" / kAdapterConfigFile));
      const int64_t inputs = std::string(targets.front()) == "k" ? 1 : targets[1][0] == 'k' ? 3 : 2;
      EXPECT_EQ(config["r"], 2 * inputs);
      EXPECT_NEAR(config["lora_alpha"].get<double>(),
                  7 * (rs_lora ? std::sqrt(inputs) : static_cast<double>(inputs)), 1e-12);
      EXPECT_EQ(config["fan_in_fan_out"], true);
      ASSERT_OK_AND_ASSIGN(const auto imported,
                           Import(AdapterRequest(scratch_ / "own-adapter", base)));
      ASSERT_OK_AND_ASSIGN(const auto back, LoadModel(imported.output_dir()));
      ASSERT_OK_AND_ASSIGN(const std::vector<float> logits, back->Logits(tokens, 1));
      for (size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], expected[i], 1e-4);
    }
  }
}

// PEFT's model for the classification of sequences: its head is a saved module.
TEST_F(AdapterFilesTest, LabelHeadsOfPeftGiveItsScoresAndTheirOwnFiles) {
  SetModelThreads(1);
  std::vector<int32_t> tokens;
  for (int i = 0; i < 9; ++i) tokens.push_back((37 * i + 5) % 280);
  const fs::path golden = Golden() / "labels-adapter";
  const std::string base = Base("llama2");
  ASSERT_OK_AND_ASSIGN(const auto imported, Import(AdapterRequest(golden, base)));
  EXPECT_EQ(imported.model().label_head().classes(2), "LABEL_2");
  ASSERT_OK_AND_ASSIGN(const auto model, LoadModel(imported.output_dir()));
  ASSERT_OK_AND_ASSIGN(const std::vector<float> logits, model->Logits(tokens, 1));
  ASSERT_OK_AND_ASSIGN(const auto expected, NpyArray<float>::Open(golden / "logits.npy"));
  ASSERT_EQ(logits.size(), 9 * expected.values().size());
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(logits[logits.size() - 3 + i], expected.values()[i], 1e-5) << i;
  }
  ExpectExportedAs(golden, imported.output_dir());
  const Json config = Json::parse(GetFile(scratch_ / "again" / kAdapterConfigFile));
  EXPECT_EQ(config["task_type"], "SEQ_CLS");
  EXPECT_EQ(config["modules_to_save"], Json({"score"}));
  // Without its head it is refused.
  fs::create_directories(source());
  PutFile(source() / kAdapterConfigFile, GetFile(golden / kAdapterConfigFile));
  fs::copy(Golden() / "llama2-adapter" / kAdapterWeightsFile, source() / kAdapterWeightsFile);
  EXPECT_FAILS(Import(AdapterRequest(source(), base)), absl::StatusCode::kInvalidArgument,
               "score.weight: missing");
  // A head of many classes without width is small, but its labels would not be.
  const std::string head = "base_model.model.score.weight";
  const auto file = SafetensorsFile::Open(golden / kAdapterWeightsFile).value();
  RawTensor empty = {*file.Find(head), ""};
  empty.info.shape = {int64_t{1} << 40, 0};
  Put(kAdapterWeightsFile, {{head, empty}});
  EXPECT_FAILS(Import(AdapterRequest(source(), base)), absl::StatusCode::kInvalidArgument,
               "score.weight: got shape [1099511627776, 0], expected [classes, ");
}

TEST_F(AdapterFilesTest, AdaptersAreRefusedOnABaseWithOtherWeights) {
  const std::string base = Base("llama2");
  const std::string checkpoint = RandomAdapters(base, {"q", "v"}).string();
  v1::ExportRequest request;
  request.set_model(checkpoint);
  request.set_output_dir(source().string());
  request.set_adapter(true);
  ASSERT_OK(Export(request));
  ASSERT_OK(Import(AdapterRequest(source(), base)));
  // The same shapes, but one matrix that has an adapter is another.
  const fs::path adapter = scratch_ / "adapter";
  fs::rename(source(), adapter);
  fs::copy(Golden() / "llama2", source());
  ChangeTensors(
      [](auto& tensors) { tensors.at("model.layers.1.self_attn.q_proj.weight").bytes[2] ^= 1; });
  v1::ImportRequest other = Request();
  other.set_tokenizer(TestTokenizerPath().string());
  other.set_output_dir((scratch_ / "other").string());
  ASSERT_OK(Import(other));
  EXPECT_FAILS(Import(AdapterRequest(adapter, other.output_dir())),
               absl::StatusCode::kFailedPrecondition,
               "tensor model.layers.1.self_attn.q_proj.weight of the base: got checksum ",
               "not the base that the adapter was trained on");
  // Files of PEFT have no checksums.
  EXPECT_OK(Import(AdapterRequest(Golden() / "llama2-adapter", other.output_dir())));
}

// The checkpoint of adapters does not hold the weights of their base.
TEST_F(AdapterFilesTest, TheBaseOfAdaptersIsNotReplacedByThem) {
  const std::string base = Base("llama2");
  v1::ImportRequest onto = AdapterRequest(Golden() / "llama2-adapter", base);
  ASSERT_OK_AND_ASSIGN(const auto adapted, Import(onto));
  onto.set_output_dir(base);
  EXPECT_FAILS(Import(onto), absl::StatusCode::kFailedPrecondition, base,
               "holds the base of adapters");
  v1::ConvertRequest convert;
  convert.set_model(adapted.output_dir());
  convert.set_output_dir(base);
  convert.set_force(true);
  convert.mutable_noise()->set_share(.1);
  EXPECT_FAILS(Convert(convert), absl::StatusCode::kFailedPrecondition, base,
               "holds the base of adapters");
  EXPECT_OK(LoadModel(adapted.output_dir()).status());
  convert.set_output_dir((scratch_ / "noisy").string());
  EXPECT_OK(Convert(convert).status());
}

// The weights that an adapter was trained on may be those of another adapter run, merged.
TEST_F(AdapterFilesTest, AdaptersOfAnAdapterRunAreImportedOnIt) {
  SetModelThreads(1);
  const std::vector<int32_t> tokens = {5, 42, 79, 116, 153, 190};
  const std::string plain = Base("llama2");
  const std::string first = RandomAdapters(plain, {"q", "v"}).string();
  const ModelPath path = FindModel(first, true).value();
  const auto exported = [&](const std::vector<const char*>& targets, const std::string& name) {
    v1::Finetuning finetuning;
    finetuning.mutable_lora()->set_rank(2);
    for (const char* target : targets) finetuning.mutable_lora()->add_targets(target);
    finetuning = ResolveFinetuning(finetuning, path.state.model).value();
    EXPECT_OK(PutRandomAdapters(path, finetuning, scratch_ / name).status());
    v1::ExportRequest request;
    request.set_model((scratch_ / name).string());
    request.set_output_dir((scratch_ / (name + "-adapter")).string());
    request.set_adapter(true);
    EXPECT_OK(Export(request));
    return scratch_ / (name + "-adapter");
  };
  const fs::path second = exported({"q"}, "second");
  ASSERT_OK_AND_ASSIGN(const auto imported, Import(AdapterRequest(second, first)));
  const auto logits = [&](const std::string& model) {
    return LoadModel(model).value()->Logits(tokens, 1).value();
  };
  const std::vector<float> expected = logits((scratch_ / "second").string());
  EXPECT_EQ(logits(imported.output_dir()), expected);
  EXPECT_NE(logits(first), expected);
  // Neither the model below nor the run itself is the base.
  for (const std::string& other : {plain, (scratch_ / "second").string()}) {
    v1::ImportRequest request = AdapterRequest(second, other);
    request.set_output_dir((scratch_ / "other").string());
    EXPECT_FAILS(Import(request), absl::StatusCode::kFailedPrecondition,
                 "not the base that the adapter was trained on");
  }
  // The checksum of o is the same with and without the adapters of q and v.
  EXPECT_FAILS(Import(AdapterRequest(exported({"o"}, "third"), first)),
               absl::StatusCode::kInvalidArgument, "has adapters itself", "braid export");
}

TEST_F(AdapterFilesTest, UnsupportedAdaptersAreRefusedByName) {
  const fs::path golden = Golden() / "llama2-adapter";
  const std::string base = Base("llama2");
  const Json good = Json::parse(GetFile(golden / kAdapterConfigFile));
  struct Case {
    std::string field;
    Json value;
    std::string message;
  };
  fs::create_directories(source());
  fs::copy(golden / kAdapterWeightsFile, source() / kAdapterWeightsFile);
  for (const Case& c :
       {Case{"use_dora", true, "use_dora"}, Case{"rank_pattern", {{"q_proj", 2}}, "rank_pattern"},
        Case{"alpha_pattern", {{"q_proj", 2}}, "alpha_pattern"}, Case{"bias", "all", "bias"},
        Case{"fan_in_fan_out", true, "fan_in_fan_out"}, Case{"use_qalora", true, "use_qalora"},
        Case{"alora_invocation_tokens", {5, 7}, "alora_invocation_tokens: got [5,7]"},
        Case{"init_lora_weights", "pissa", "init_lora_weights: got \"pissa\""},
        Case{"init_lora_weights", "olora", "init_lora_weights: got \"olora\""},
        Case{"modules_to_save", {"lm_head"}, "modules_to_save"},
        Case{"peft_type", "LOHA", "peft_type"}, Case{"r", 0, "r: got 0"},
        Case{"r", 5, "got shape [4, 16], expected [5, 16]"},
        Case{"lora_alpha", -1, "finetuning.lora.alpha: got -1"}}) {
    Json config = good;
    config[c.field] = c.value;
    PutFile(source() / kAdapterConfigFile, config.dump());
    EXPECT_FAILS(Import(AdapterRequest(source(), base)), absl::StatusCode::kInvalidArgument,
                 c.message);
  }
  Json sound = good;
  sound["init_lora_weights"] = "eva";
  sound["alora_invocation_tokens"] = Json::array();
  PutFile(source() / kAdapterConfigFile, sound.dump());
  // The adapter fits no model of other shapes. Whether it belongs on one that has an adapter itself
  // is unknown without checksums.
  EXPECT_FAILS(Import(AdapterRequest(source(), Base("llama3"))), absl::StatusCode::kInvalidArgument,
               "v_proj.lora_B.weight: got shape [16, 4], expected [8, 4]");
  ASSERT_OK_AND_ASSIGN(const auto adapted, Import(AdapterRequest(source(), base)));
  v1::ImportRequest twice = AdapterRequest(source(), adapted.output_dir());
  twice.set_output_dir((scratch_ / "twice").string());
  EXPECT_FAILS(Import(twice), absl::StatusCode::kInvalidArgument, "has adapters itself");
  const auto change = [&](const std::function<void(std::map<std::string, RawTensor>&)>& edit) {
    std::map<std::string, RawTensor> tensors;
    {
      const auto file = SafetensorsFile::Open(golden / kAdapterWeightsFile).value();
      for (const TensorInfo& info : file.tensors()) {
        tensors[info.name] = {info, std::string(*file.Bytes(info.name))};
      }
    }
    edit(tensors);
    Put(kAdapterWeightsFile, tensors);
    return Import(AdapterRequest(source(), base)).status();
  };
  const auto rename = [](std::map<std::string, RawTensor>& tensors, const std::string& from,
                         const std::string& to) {
    auto tensor = tensors.extract(from);
    tensor.key() = tensor.mapped().info.name = to;
    tensors.insert(std::move(tensor));
  };
  const std::string first = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight";
  EXPECT_FAILS(change([&](auto& tensors) { tensors.erase(first); }),
               absl::StatusCode::kInvalidArgument, first, "missing");
  EXPECT_FAILS(
      change([&](auto& tensors) { rename(tensors, first, "base_model.model.score.weight"); }),
      absl::StatusCode::kInvalidArgument, "tensor base_model.model.score.weight");
  EXPECT_FAILS(change([&](auto& tensors) {
                 rename(tensors, first,
                        "base_model.model.model.layers.7.self_attn.q_proj.lora_A.weight");
               }),
               absl::StatusCode::kInvalidArgument, "expected layers 0 to 1");
  // A model without adapters has none to export.
  v1::ExportRequest request;
  request.set_model(base);
  request.set_output_dir((scratch_ / "none").string());
  request.set_adapter(true);
  EXPECT_FAILS(Export(request), absl::StatusCode::kInvalidArgument, "holds no adapters");
}

}  // namespace adapter_files_test
}  // namespace braid
