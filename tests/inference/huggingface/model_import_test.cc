#include "inference/huggingface/model_import.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "formats/half_float.h"
#include "formats/safetensors.h"
#include "inference/huggingface/file_tensor.h"
#include "model/config/model_config.h"
#include "runs/checkpoint.h"
#include "tests/inference/huggingface/model_import_fixture.h"

namespace braid {
namespace model_import_test {

namespace fs = std::filesystem;
using Json = nlohmann::json;

TEST_F(ModelImportTest, RestoresTheExportedModel) {
  v1::ModelConfig tied = ExportedConfig(1);
  tied.set_tie_embeddings(true);
  v1::ModelConfig plain_moe = ExportedConfig(4);
  plain_moe.mutable_routing()->set_router_input(v1::PLAIN_MEAN);
  plain_moe.mutable_routing()->set_first_segment(v1::UNIFORM);
  v1::ModelConfig chosen = ExportedConfig(4);
  chosen.mutable_routing()->set_router(v1::TOKEN_CHOICE);
  chosen.mutable_routing()->mutable_token()->set_gate(v1::TokenRouting::FROZEN);
  chosen.mutable_routing()->mutable_token()->set_combine_weights(v1::TokenRouting::ONES);
  chosen.mutable_routing()->mutable_token()->set_active_experts(3);
  v1::ModelConfig relu = chosen, cosine = chosen, hash = chosen;
  chosen = ResolveModelConfig(chosen).value();
  relu.mutable_routing()->clear_token();
  relu.mutable_routing()->mutable_token()->set_gate(v1::TokenRouting::RELU);
  relu = ResolveModelConfig(relu).value();
  cosine.mutable_routing()->mutable_token()->set_gate(v1::TokenRouting::COSINE);
  cosine.mutable_routing()->mutable_token()->set_projection_width(5);
  cosine = ResolveModelConfig(cosine).value();
  hash.mutable_routing()->mutable_token()->set_gate(v1::TokenRouting::HASH);
  hash = ResolveModelConfig(hash).value();
  v1::ModelConfig masked = ExportedConfig(1);
  masked.set_attention_mask(v1::DOCUMENT);
  masked.set_document_end(2);
  v1::ModelConfig capped = ExportedConfig(4);
  capped.set_logit_soft_cap(12.5);
  v1::ModelConfig classes = tied, number = ExportedConfig(1);
  for (const char* name : {"no", "yes \xC3\xBC", "perhaps"}) {
    classes.mutable_label_head()->add_classes(name);
  }
  number.mutable_label_head()->set_regression(true);
  for (const v1::ModelConfig& config :
       {ExportedConfig(1), tied, ExportedConfig(4), plain_moe, chosen, relu, cosine, hash, masked,
        capped, classes, number}) {
    const auto model = RandomModel(config);
    for (const int64_t shard : {int64_t{3000}, kDefaultShardBytes}) {
      PutSource(*model, {.max_shard_bytes = shard});
      v1::ImportRequest request = Request();
      request.set_force(true);
      ASSERT_OK_AND_ASSIGN(const auto response, Import(request));
      EXPECT_EQ(response.model().DebugString(), config.DebugString());
      EXPECT_OK(VerifyCheckpoint(response.output_dir()));
      ASSERT_OK_AND_ASSIGN(const auto loaded, LoadModel(response.output_dir()));
      EXPECT_TRUE(std::ranges::equal(loaded->values(), model->values()));
    }
  }
}

// Experts that are slices of an FFN come back as experts of their own width, which compute the
// same.
TEST_F(ModelImportTest, RestoresAnExportedMixtral) {
  v1::ModelConfig config = ExportedConfig(4);
  config.clear_routing();
  config.mutable_routing()->set_num_experts(4);
  config.mutable_routing()->set_router(v1::TOKEN_CHOICE);
  config.mutable_routing()->mutable_token()->set_active_experts(3);
  config = ResolveModelConfig(config).value();
  const auto model = RandomModel(config);
  PutSource(*model, {.max_shard_bytes = 3000});
  ASSERT_OK_AND_ASSIGN(const auto response, Import(Request()));
  const v1::RoutingConfig& routing = response.model().routing();
  EXPECT_EQ(response.model().d_ff(), config.routing().token().expert_d_ff());
  EXPECT_EQ(routing.token().expert_d_ff(), config.routing().token().expert_d_ff());
  EXPECT_EQ(routing.token().gate(), v1::TokenRouting::LINEAR);
  EXPECT_EQ(routing.token().active_experts(), 3);
  ASSERT_OK_AND_ASSIGN(const auto loaded, LoadModel(response.output_dir()));
  EXPECT_TRUE(std::ranges::equal(loaded->values(), model->values()));
  ChangeConfig([](Json& c) { c["n_shared_experts"] = 1; });
  EXPECT_FAILS(ImportedModel(), absl::StatusCode::kInvalidArgument, "n_shared_experts");
  ChangeConfig([](Json& c) {
    c.erase("n_shared_experts");
    c["shared_expert_intermediate_size"] = 6;
  });
  EXPECT_FAILS(ImportedModel(), absl::StatusCode::kInvalidArgument,
               "shared_expert_intermediate_size");
  ChangeConfig([](Json& c) {
    c.erase("shared_expert_intermediate_size");
    c["sliding_window"] = c["max_position_embeddings"].get<int>() - 1;
  });
  EXPECT_FAILS(ImportedModel(), absl::StatusCode::kInvalidArgument, "sliding_window: got 39",
               "at least max_position_embeddings 40");
}

TEST_F(ModelImportTest, ReadsSixteenBitWeightsExactly) {
  const auto model = RandomModel(ExportedConfig(1));
  PutSource(*model, {.dtype = DType::kBF16});
  ASSERT_OK_AND_ASSIGN(const auto rounded, ImportedModel());
  for (size_t i = 0; i < model->values().size(); ++i) {
    ASSERT_EQ(rounded->values()[i], FloatFromBf16(Bf16FromFloat(model->values()[i])));
  }
  PutSource(*model, {.dtype = DType::kF16});
  ASSERT_OK_AND_ASSIGN(const auto half, ImportedModel());
  for (size_t i = 0; i < model->values().size(); ++i) {
    ASSERT_EQ(half->values()[i], FloatFromF16(F16FromFloat(model->values()[i])));
  }
}

TEST_F(ModelImportTest, AcceptsTensorsOfOldCheckpoints) {
  const auto model = RandomModel(ExportedConfig(1));
  PutSource(*model);
  ChangeTensors([](auto& tensors) {
    const std::string name = "model.layers.0.self_attn.rotary_emb.inv_freq";
    tensors[name] = {{name, DType::kF32, {4}}, std::string(16, '\0')};
  });
  ChangeConfig([](Json& config) {
    for (const char* field : {"num_key_value_heads", "rope_theta", "rope_scaling", "attention_bias",
                              "mlp_bias", "torch_dtype"}) {
      config.erase(field);
    }
    config["pad_token_id"] = -1;
  });
  ASSERT_OK_AND_ASSIGN(const auto loaded, ImportedModel());
  EXPECT_TRUE(std::ranges::equal(loaded->values(), model->values()));
  ChangeConfig([](Json& config) {
    config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 5e5}};
  });
  ASSERT_OK_AND_ASSIGN(const auto newer, ImportedModel());
  EXPECT_EQ(newer->config().rope_theta(), 5e5);
}

TEST_F(ModelImportTest, TiedHeadMayBeStoredWhenItIsTheEmbedding) {
  v1::ModelConfig tied = ExportedConfig(1);
  tied.set_tie_embeddings(true);
  PutSource(*RandomModel(tied));
  ChangeTensors([](auto& tensors) {
    RawTensor head = tensors["model.embed_tokens.weight"];
    head.info.name = "lm_head.weight";
    tensors["lm_head.weight"] = head;
  });
  EXPECT_OK(ImportedModel());
  ChangeTensors([](auto& tensors) { tensors["lm_head.weight"].bytes[1] ^= 1; });
  EXPECT_FAILS(ImportedModel(), absl::StatusCode::kInvalidArgument, "lm_head.weight",
               "tie_word_embeddings");
}

TEST_F(ModelImportTest, RefusesUnsupportedModels) {
  PutSource(*RandomModel(ExportedConfig(1)));
  const std::string whole = GetFile(source() / "config.json");
  const auto refuses = [&](const char* field, const Json& value, const char* hint) {
    SCOPED_TRACE(field);
    PutFile(source() / "config.json", whole);
    ChangeConfig([&](Json& config) { config[field] = value; });
    EXPECT_THAT(Refusal(), testing::AllOf(testing::HasSubstr("config.json"),
                                          testing::HasSubstr(field), testing::HasSubstr(hint)));
  };
  refuses("num_key_value_heads", 3, "expected 1 to 2");
  refuses("attention_bias", true, "bias of the output projection");
  refuses("mlp_bias", true, "biases");
  refuses("hidden_act", "gelu", "silu");
  refuses("rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}, "llama3");
  refuses("rope_scaling", {{"type", "linear"}}, "factor");
  refuses("rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}}, "original_max_position");
  refuses("rope_scaling", "linear", "object");
  refuses("rope_parameters", {{"rope_type", "yarn"}, {"rope_theta", 1e4}}, "default");
  refuses("rope_interleaved", true, "false");
  refuses("head_dim", 5, "even");
  refuses("model_type", "gpt_neox", "llama");
  refuses("quantization_config", {{"bits", 4}}, "quantized");
  refuses("hidden_size", nullptr, "integer");
  refuses("hidden_size", -16, "integer");
  refuses("hidden_size", 1e300, "integer");
  refuses("hidden_size", "16", "integer");
  refuses("num_hidden_layers", 0, "at least 1");
  refuses("rms_norm_eps", 0.0, "positive");
  refuses("tie_word_embeddings", 1, "true or false");
}

// What other programs write about a head of labels.
TEST_F(ModelImportTest, ReadsTheLabelsOfOtherPrograms) {
  v1::ModelConfig config = ExportedConfig(1);
  for (const char* name : {"LABEL_0", "LABEL_1"}) config.mutable_label_head()->add_classes(name);
  PutSource(*RandomModel(config));
  const std::string whole = GetFile(source() / "config.json");
  ChangeConfig([](Json& json) {
    for (const char* field : {"id2label", "label2id", "problem_type"}) json.erase(field);
  });
  ASSERT_OK_AND_ASSIGN(const auto loaded, ImportedModel());
  EXPECT_EQ(loaded->config().label_head().DebugString(), config.label_head().DebugString());
  fs::remove_all(scratch_ / "imported");
  const auto refuses = [&](const char* field, const Json& value, const char* hint) {
    SCOPED_TRACE(field);
    PutFile(source() / "config.json", whole);
    ChangeConfig([&](Json& json) { json[field] = value; });
    EXPECT_THAT(Refusal(), testing::AllOf(testing::HasSubstr("config.json"),
                                          testing::HasSubstr(field), testing::HasSubstr(hint)));
  };
  refuses("architectures", Json::array({"LlamaForTokenClassification"}),
          "no other head is supported");
  refuses("problem_type", "multi_label_classification", "single_label_classification");
  refuses("problem_type", "regression", "since id2label has 2 labels");
  refuses("id2label", "yes", "a name for each");
  refuses("id2label", Json::object(), "a name for each");
  refuses("id2label", {{"0", "no"}, {"2", "yes"}}, "a name for each");
  refuses("id2label", {{"0", "no"}, {"1", 7}}, "a name for each");
  refuses("id2label", {{"0", "no"}, {"1", "\x1B[2J"}}, "a name for each");
  PutFile(source() / "config.json", whole);
  ChangeConfig([](Json& json) { json["id2label"] = {{"0", "no"}, {"1", "no"}}; });
  EXPECT_THAT(Refusal(), testing::HasSubstr("label_head.classes: got \"no\" twice"));
  ChangeConfig([](Json& json) { json["id2label"] = {{"0", "a"}, {"1", "b"}, {"2", "c"}}; });
  EXPECT_THAT(Refusal(), testing::HasSubstr("tensor score.weight: got shape [2, 16], expected "
                                            "[3, 16]"));
}

TEST_F(ModelImportTest, RefusesGarbageInTheConfiguration) {
  PutSource(*RandomModel(ExportedConfig(1)));
  const std::string whole = GetFile(source() / "config.json");
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("null"), std::string("{\"a\":1,\"a\":2}"),
        std::string(100000, '['), whole.substr(0, whole.size() / 2), whole + "x"}) {
    PutFile(source() / "config.json", text);
    EXPECT_THAT(Refusal(), testing::HasSubstr("config.json"));
  }
  // A model far larger than its files is refused before memory is allocated.
  PutFile(source() / "config.json", whole);
  ChangeConfig([](Json& config) {
    config["hidden_size"] = 1 << 21;
    config["intermediate_size"] = 1 << 21;
    config["vocab_size"] = 1 << 21;
  });
  EXPECT_THAT(Refusal(), testing::HasSubstr("model.embed_tokens.weight"));
}

TEST_F(ModelImportTest, RefusesWrongTensors) {
  PutSource(*RandomModel(ExportedConfig(1)));
  const std::string whole = GetFile(source() / "model.safetensors");
  const std::string norm = "model.norm.weight";
  const auto refuses = [&](const char* hint, const std::string& name,
                           const std::function<void(std::map<std::string, RawTensor>&)>& change) {
    SCOPED_TRACE(hint);
    PutFile(source() / "model.safetensors", whole);
    ChangeTensors(change);
    EXPECT_THAT(Refusal(), testing::AllOf(testing::HasSubstr(name), testing::HasSubstr(hint)));
  };
  refuses("missing", norm, [&](auto& tensors) { tensors.erase(norm); });
  refuses("got shape [4, 4], expected [16]", norm, [&](auto& tensors) {
    tensors[norm].info.shape = {4, 4};
  });
  refuses("got I32, expected F32", norm,
          [&](auto& tensors) { tensors[norm].info.dtype = DType::kI32; });
  refuses("element 2: got nan", norm, [&](auto& tensors) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    tensors[norm].bytes.replace(8, 4, reinterpret_cast<const char*>(&nan), 4);
  });
  const std::string bias = "model.layers.0.self_attn.q_proj.bias";
  refuses("only the biases of q, k and v of a qwen2", bias, [&](auto& tensors) {
    tensors[bias] = {{bias, DType::kF32, {16}}, std::string(64, '\0')};
  });
  refuses("not a tensor of the model", "model.layers.2.input_layernorm.weight", [&](auto& tensors) {
    RawTensor extra = tensors[norm];
    extra.info.name = "model.layers.2.input_layernorm.weight";
    tensors[extra.info.name] = extra;
  });
}

TEST_F(ModelImportTest, RefusesTruncatedWeightsAtAnyLength) {
  PutSource(*RandomModel(ExportedConfig(1)));
  const std::string whole = GetFile(source() / "model.safetensors");
  for (size_t length = 0; length < whole.size(); length += 1 + length / 7) {
    PutFile(source() / "model.safetensors", whole.substr(0, length));
    EXPECT_THAT(Refusal(), testing::HasSubstr("model.safetensors"));
  }
}

TEST_F(ModelImportTest, RefusesABadIndex) {
  PutSource(*RandomModel(ExportedConfig(1)), {.max_shard_bytes = 5000});
  const fs::path index = source() / "model.safetensors.index.json";
  const Json whole = Json::parse(GetFile(index));
  PutFile(scratch_ / "outside.safetensors", "");
  const auto refuses = [&](const char* hint, const std::function<void(Json&)>& change) {
    SCOPED_TRACE(hint);
    Json json = whole;
    change(json["weight_map"]);
    PutFile(index, json.dump());
    EXPECT_THAT(Refusal(), testing::HasSubstr(hint));
  };
  const std::string norm = "model.norm.weight";
  for (const char* path : {"../outside.safetensors", "/etc/passwd", "", "..", "a/b.safetensors"}) {
    refuses("in the same directory", [&](Json& map) { map[norm] = path; });
  }
  refuses("in the same directory", [&](Json& map) { map[norm] = 7; });
  refuses("nowhere.safetensors", [&](Json& map) { map[norm] = "nowhere.safetensors"; });
  refuses("weight_map lacks tensor model.norm.weight", [&](Json& map) { map.erase(norm); });
  refuses("is not in", [&](Json& map) { map[norm] = map["model.embed_tokens.weight"]; });
  refuses("is not in", [&](Json& map) { map["more"] = map[norm]; });
  PutFile(index, "{\"weight_map\": {\"a\": \"x.safetensors\", \"a\": \"y.safetensors\"}}");
  EXPECT_THAT(Refusal(), testing::HasSubstr("repeated key"));
  // The same tensor occurs in two shards.
  PutFile(index, whole.dump());
  const std::string first = whole["weight_map"]["model.embed_tokens.weight"];
  fs::copy_file(source() / first, source() / "copy.safetensors");
  Json doubled = whole;
  doubled["weight_map"]["more"] = "copy.safetensors";
  PutFile(index, doubled.dump());
  EXPECT_THAT(Refusal(), testing::HasSubstr("is in both"));
}

TEST_F(ModelImportTest, ErrorsNameMissingFiles) {
  fs::create_directories(source());
  EXPECT_THAT(Refusal(), testing::HasSubstr("config.json"));
  PutSource(*RandomModel(ExportedConfig(1)));
  fs::remove(source() / "model.safetensors");
  PutFile(source() / "pytorch_model.bin", "");
  EXPECT_THAT(Refusal(), testing::AllOf(testing::HasSubstr("model.safetensors"),
                                        testing::HasSubstr("safe_serialization")));
  PutSource(*RandomModel(ExportedConfig(1)));
  fs::remove(source() / "tokenizer.model");
  fs::remove(source() / "tokenizer.json");
  EXPECT_THAT(Refusal(), testing::HasSubstr("--tokenizer"));
  v1::ImportRequest request = Request();
  request.set_tokenizer(TestTokenizerPath().string());
  EXPECT_OK(Import(request));
}

// Texts would end with the end of the SentencePiece model, whatever the other files say.
TEST_F(ModelImportTest, RefusesAnEndTokenThatIsAnotherPieceOfTheTokenizer) {
  PutSource(*RandomModel(ExportedConfig(1)));
  const fs::path path = source() / "tokenizer_config.json";
  Json config = Json::parse(GetFile(path));
  config["eos_token"] = "<s>";
  PutFile(path, config.dump());
  EXPECT_THAT(Refusal(), testing::AllOf(testing::HasSubstr("eos_token: got \"<s>\""),
                                        testing::HasSubstr("expected the end of tokenizer.model")));
}

TEST_F(ModelImportTest, RefusesAnEndTokenThatIsNoPieceOfTheTokenizer) {
  PutSource(*RandomModel(ExportedConfig(1)));
  const fs::path path = source() / "tokenizer_config.json";
  Json config = Json::parse(GetFile(path));
  config["eos_token"] = {{"content", "<|im_end|>"}};
  PutFile(path, config.dump());
  EXPECT_THAT(Refusal(), testing::AllOf(testing::HasSubstr("eos_token: got \"<|im_end|>\""),
                                        testing::HasSubstr("expected the end of tokenizer.model"),
                                        testing::HasSubstr("--tokenizer")));
  v1::ImportRequest request = Request();
  request.set_tokenizer(TestTokenizerPath().string());
  EXPECT_OK(Import(request));
}

TEST_F(ModelImportTest, RefusesATokenizerWithMorePiecesThanEmbeddings) {
  v1::ModelConfig config = ExportedConfig(1);
  PutSource(*RandomModel(config));
  config.set_vocab_size(config.vocab_size() - 8);
  ChangeConfig([&](Json& json) { json["vocab_size"] = config.vocab_size(); });
  ChangeTensors([&](auto& tensors) {
    for (const ParameterSpec& spec : ParameterLayout(config)) {
      const FileTensor tensor = FileTensorsOf(config, spec).front();
      tensors[tensor.name] = {{tensor.name, DType::kF32, tensor.shape},
                              std::string(4 * spec.size, '\0')};
    }
  });
  EXPECT_THAT(Refusal(), testing::AllOf(testing::HasSubstr("tokenizer.model"),
                                        testing::HasSubstr("vocab_size")));
}

TEST_F(ModelImportTest, ReplacesOnlyACheckpointAndOnlyWhenForced) {
  PutSource(*RandomModel(ExportedConfig(1)));
  ASSERT_OK(Import(Request()));
  EXPECT_FAILS(Import(Request()), absl::StatusCode::kAlreadyExists, "--force");
  v1::ImportRequest request = Request();
  request.set_force(true);
  EXPECT_OK(Import(request));
  fs::create_directories(scratch_ / "precious");
  PutFile(scratch_ / "precious/thesis.tex", "42");
  request.set_output_dir((scratch_ / "precious").string());
  EXPECT_FAILS(Import(request), absl::StatusCode::kFailedPrecondition, "is not a checkpoint");
}

}  // namespace model_import_test
}  // namespace braid
