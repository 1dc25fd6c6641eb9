#include "proto/stated_defaults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "braid/v1/conversion.pb.h"
#include "braid/v1/corpus.pb.h"
#include "braid/v1/generation.pb.h"
#include "braid/v1/training.pb.h"
#include "google/protobuf/text_format.h"
#include "proto/field_help.h"

namespace braid {
namespace stated_defaults_test {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

template <class Message>
Message Filled(const std::string& text = "") {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  FillStatedDefaults(&message);
  return message;
}

template <class Message>
std::string TextOf(const std::string& text = "") {
  return Filled<Message>(text).ShortDebugString();
}

TEST(StatedDefaultsTest, AreNumbersSizesNamesAndTexts) {
  EXPECT_EQ(
      TextOf<v1::OptimizerConfig>(),
      "learning_rate: 0.0002 beta1: 0.9 beta2: 0.95 epsilon: 1e-08 weight_decay: 0.1 "
      "clip_norm: 1 warmup_fraction: 0.05 final_lr_ratio: 0.1 schedule: COSINE algorithm: ADAMW "
      "ema_decay: 0");
  EXPECT_EQ(TextOf<v1::SupervisionConfig>(),
            "hang_seconds: 30 hang_steps: 3 max_restarts: 3 backoff_seconds: 1 "
            "slow_rank_ratio: 1.3 slow_rank_steps: 20");
  EXPECT_EQ(TextOf<v1::ReductionConfig>(), "bucket_bytes: 26214400");
  EXPECT_EQ(TextOf<v1::RoutingConfig>(),
            "num_experts: 1 first_segment: SELF_STOP_GRADIENT router_input: NORMALIZED_MEAN "
            "router_init_std: 0.06 segment_boundaries: FIXED");
  EXPECT_EQ(TextOf<v1::IngestConfig>(),
            "max_document_bytes: 67108864 max_expansion_ratio: 1000 max_expanded_bytes: "
            "1099511627776");
  EXPECT_EQ(TextOf<v1::NeighborConfig>(), "index: \"auto\" k: 20 recall_sample: 1000");
  EXPECT_EQ(TextOf<v1::KubernetesConfig>(), "namespace: \"default\"");
  EXPECT_EQ(TextOf<v1::KeptExperts>(), "max_windows: 256");
  EXPECT_EQ(TextOf<v1::GenerateRequest>(),
            "max_tokens: 128 top_p: 1 routing: PROMPT_ROUTING num_beams: 1 length_penalty: 1 "
            "no_repeat_ngram: 0");
}

TEST(StatedDefaultsTest, KeepWhatIsSetEvenToZero) {
  const std::string set =
      "learning_rate: 0 beta1: 1 beta2: 0 epsilon: 0 weight_decay: 0 "
      "clip_norm: -1 warmup_fraction: 0 final_lr_ratio: 0";
  EXPECT_EQ(TextOf<v1::OptimizerConfig>(set),
            set + " schedule: COSINE algorithm: ADAMW ema_decay: 0");
  const std::string neighbors = "index: \"Flat\" k: 0 nprobe: 0 recall_sample: 7";
  EXPECT_EQ(TextOf<v1::NeighborConfig>(neighbors), neighbors);
}

// Defaults that depend on other settings are those of the code that resolves them.
TEST(StatedDefaultsTest, LeaveOtherFieldsUnset) {
  EXPECT_EQ(TextOf<v1::ModelConfig>(),
            "num_layers: 4 d_model: 64 num_heads: 2 rope_theta: 10000 norm_epsilon: 1e-05 "
            "initialization: FAN_IN attention_mask: OPEN z_loss: 0 family: LLAMA");
  EXPECT_EQ(TextOf<v1::TokenizerConfig>(), "sample_bytes: 16777216");
  EXPECT_EQ(TextOf<v1::CorpusSpec>(), "order: RANDOM");
  EXPECT_EQ(TextOf<v1::BatchConfig>(), "global_batch_size: 4");
  EXPECT_EQ(TextOf<v1::SlurmConfig>(), "");
}

void CollectOptionalFields(const Descriptor& type, std::set<const Descriptor*>* seen,
                           std::vector<const FieldDescriptor*>* fields) {
  if (!seen->insert(&type).second) return;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.message_type() != nullptr) {
      CollectOptionalFields(*field.message_type(), seen, fields);
    } else if (field.has_presence()) {
      fields->push_back(&field);
    }
  }
}

// An optional setting exists because absence means something: its comment says what.
TEST(StatedDefaultsTest, EveryOptionalSettingStatesItsDefault) {
  std::set<const Descriptor*> seen;
  std::vector<const FieldDescriptor*> fields;
  for (const Descriptor* root : {v1::RunSpec::descriptor(), v1::CorpusSpec::descriptor(),
                                 v1::GenerateRequest::descriptor()}) {
    CollectOptionalFields(*root, &seen, &fields);
  }
  EXPECT_GT(fields.size(), 50u);
  for (const FieldDescriptor* field : fields) {
    const auto help = FindFieldHelp(std::string(field->containing_type()->full_name()),
                                    std::string(field->name()));
    ASSERT_TRUE(help.ok()) << help.status();
    EXPECT_NE(help->default_value, "") << std::string(field->full_name());
  }
}

}  // namespace stated_defaults_test
}  // namespace braid
