#include "trainer/step_metrics.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>

#include "base/process_memory.h"
#include "model/config/model_config.h"
#include "model/config/model_flops.h"
#include "tests/trainer/tiny_run.h"
#include "trainer/progress_line.h"

namespace braid {
namespace step_metrics_test {

TEST(StepTimesTest, OtherIsTheRest) {
  PhaseSeconds spent = {};
  spent[static_cast<size_t>(Phase::kFfn)] = 0.5;
  spent[static_cast<size_t>(Phase::kData)] = 0.125;
  spent[static_cast<size_t>(Phase::kCheckpoint)] = 3;  // before the step
  const v1::StepTimes times = StepTimesOf(spent, 1);
  EXPECT_EQ(times.ffn(), 0.5);
  EXPECT_EQ(times.data(), 0.125);
  EXPECT_EQ(times.checkpoint(), 3);
  EXPECT_EQ(times.other(), 0.375);
  EXPECT_EQ(StepTimesOf(spent, 0.25).other(), 0);
}

TEST(StepTimesTest, EveryPhaseHasItsField) {
  for (size_t phase = 0; phase < kNumPhases; ++phase) {
    PhaseSeconds spent = {};
    spent[phase] = 1;
    const v1::StepTimes t = StepTimesOf(spent, 0);
    EXPECT_EQ(t.data() + t.router() + t.merge() + t.ffn() + t.attention() + t.head() +
                  t.optimizer() + t.communication() + t.checkpoint(),
              1)
        << phase;
  }
}

TEST(StepMeterTest, CountsArithmeticOverRanksAndPeak) {
  v1::ModelConfig config;
  config.set_preset("tiny/8E");
  config = ResolveModelConfig(config).value();
  v1::StepMetrics metrics;
  metrics.set_loss(2);
  metrics.set_tokens_per_second(1e5);
  metrics.set_step_seconds(0.1);
  StepMeter(4, 20).Complete(FlopsPerToken(config), &metrics);
  EXPECT_DOUBLE_EQ(metrics.gflops(), FlopsPerToken(config).total() * 1e5 / 1e9);
  EXPECT_DOUBLE_EQ(metrics.model_flops_utilization(), metrics.gflops() / 80);
  EXPECT_DOUBLE_EQ(metrics.perplexity(), std::exp(2));
  metrics.clear_model_flops_utilization();
  StepMeter(4, 0).Complete(FlopsPerToken(config), &metrics);
  EXPECT_EQ(metrics.model_flops_utilization(), 0);
}

TEST(StepMeterTest, PositionsSeeTheirDocumentsOrExamples) {
  v1::ModelConfig config;
  config.set_preset("tiny");
  config = ResolveModelConfig(config).value();
  const auto keys_of = [&](const Batch& of) { return *MeansOf(of, {}, config).visible_keys; };
  Batch batch{.inputs = {5, 9, 7, 5, 5, 6, 7, 9},
              .targets = {},
              .batch_size = 2,
              .lengths = {},
              .target_counts = {},
              .first_visible = {}};
  EXPECT_EQ(keys_of(batch), .5 * config.sequence_length());
  config.set_attention_mask(v1::DOCUMENT);
  config.set_document_end(9);
  // Documents of 2 and 2 tokens, and one of 4: half of their squares.
  EXPECT_EQ(keys_of(batch), (2 + 2 + 8) / 8.0);
  batch.first_visible = {0, 0, 0, 3, 0, 1, 1, 1};  // 3 and 1; 1 and 3
  // Documents end within examples: 2, 1 and 1; 1 and 3.
  EXPECT_EQ(keys_of(batch), (2 + .5 + .5 + .5 + 4.5) / 8.0);
  config.clear_attention_mask();
  EXPECT_EQ(keys_of(batch), 2 * (4.5 + .5) / 8.0);
  EXPECT_EQ(keys_of({}), .5 * config.sequence_length());
}

TEST(StepMeterTest, TargetShareCountsSupervisedPositionsWithTarget) {
  Batch batch;
  EXPECT_EQ(MeansOf(batch, {}, {}).target_share, 1);
  batch.targets = {3, 0, 5, -1};  // The last instance may be short.
  EXPECT_EQ(MeansOf(batch, {}, {}).target_share, 1);
  batch.first_visible = {0, 0, 0, 0};
  EXPECT_EQ(MeansOf(batch, {}, {}).target_share, .75);
}

TEST(StepMeterTest, SegmentsOfDocumentsAndExpertsInUseAreCounted) {
  v1::ModelConfig config;
  config.set_preset("tiny/8E");
  config = ResolveModelConfig(config).value();
  const Batch batch{.inputs = {5, 9, 7, 5, 5, 6, 7, 9},
                    .targets = {},
                    .batch_size = 2,
                    .lengths = {},
                    .target_counts = {},
                    .first_visible = {}};
  GradientPass pass;
  pass.num_tokens = 8;
  pass.active_experts = 1.5;
  EXPECT_EQ(MeansOf(batch, pass, config).segments, std::nullopt);
  EXPECT_EQ(MeansOf(batch, pass, config).active_experts, std::nullopt);
  config.mutable_routing()->set_segment_length(3);
  config.mutable_routing()->set_segment_boundaries(v1::RoutingConfig::DOCUMENT);
  config.set_document_end(9);
  // At 0 and after the 9 at 1; at 0 and 3. No document begins after the last position.
  EXPECT_EQ(MeansOf(batch, pass, config).segments, 4 / 8.0);
  config.mutable_routing()->set_router(v1::TOKEN_CHOICE);
  config.mutable_routing()->mutable_token()->set_gate(v1::TokenRouting::RELU);
  EXPECT_EQ(MeansOf(batch, pass, config).active_experts, 1.5);
}

TEST(StepMeterTest, RunsWithAdaptersReportTheirOwnArithmetic) {
  const auto text = NewDirectory("text"), answers = NewDirectory("answers");
  WriteTinyDataset(text);
  WriteTinySupervised(answers, TinyExamples(36), 3);
  const v1::RunSpec spec = TinyAdapterSpec(answers, TinyBase(text), 2);
  const RunDirectory run(NewDirectory("run"));
  ASSERT_TRUE(run.WriteSpec(spec).ok());
  ASSERT_TRUE(TrainAlone(run, spec).ok());
  const auto flops_with = [&](double keys, double target_share) {
    return FlopsPerToken(spec.model(), spec.finetuning(),
                         {.visible_keys = keys, .target_share = target_share})
        .total();
  };
  const auto steps = run.ReadMetrics(0).value();
  ASSERT_FALSE(steps.empty());
  for (const v1::StepMetrics& step : steps) {
    const double flops = 1e9 * step.gflops() / step.tokens_per_second();
    // Each example is at most 11 of the sequence's 32 tokens.
    EXPECT_GT(flops, flops_with(0, 0));
    EXPECT_LT(flops, flops_with(11, .5));
  }
}

TEST(ProcessMemoryTest, ReadsStatus) {
  const ProcessMemory memory =
      ParseProcessMemory("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1024 kB\nThreads:\t1\n");
  EXPECT_EQ(memory.resident_bytes, 1 << 20);
  EXPECT_EQ(memory.peak_resident_bytes, 2 << 20);
  EXPECT_EQ(ParseProcessMemory("").resident_bytes, 0);
  EXPECT_EQ(ParseProcessMemory("VmRSS:\nVmHWM:").resident_bytes, 0);
}

TEST(ProcessMemoryTest, SeesWhatIsUsed) {
  const int64_t before = ReadProcessMemory().resident_bytes;
  // Mapped memory, because the heap may reuse freed blocks.
  const size_t size = 64 << 20;
  void* const block =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(block, MAP_FAILED);
  std::memset(block, 1, size);
  const ProcessMemory with = ReadProcessMemory();
  munmap(block, size);
  // The kernel counts in batches of pages.
  EXPECT_GE(with.resident_bytes - before, 60 << 20);
  EXPECT_GE(with.peak_resident_bytes, with.resident_bytes);
}

TEST(ProgressLineTest, ShowsArithmeticWhereItIsKnown) {
  v1::StepMetrics metrics;
  metrics.set_step(2);
  metrics.set_tokens_per_second(1000);
  EXPECT_EQ(ProgressLine(metrics, 4, Pace()).find("GFLOP"), std::string::npos);
  metrics.set_gflops(85.07);
  EXPECT_NE(ProgressLine(metrics, 4, Pace()).find("1000 tokens/s  85.1 GFLOP/s  "),
            std::string::npos);
  metrics.set_model_flops_utilization(0.637);
  EXPECT_NE(ProgressLine(metrics, 4, Pace()).find("85.1 GFLOP/s (64 %)  "), std::string::npos);
}

TEST(StepMeterTest, RunsReportTheirCost) {
  const auto dataset = NewDirectory("data");
  WriteTinyDataset(dataset);
  const v1::RunSpec spec = TinySpec(dataset, 8);
  const RunDirectory run(NewDirectory("run"));
  ASSERT_TRUE(run.WriteSpec(spec).ok());
  ASSERT_TRUE(TrainAlone(run, spec).ok());
  const auto steps = run.ReadMetrics(0).value();
  ASSERT_EQ(steps.size(), 8u);
  for (const v1::StepMetrics& step : steps) {
    EXPECT_DOUBLE_EQ(step.perplexity(), std::exp(step.loss()));
    const v1::ModelConfig model = step.upcycled() ? spec.model() : DenseCounterpart(spec.model());
    EXPECT_DOUBLE_EQ(step.gflops(), FlopsPerToken(model).total() * step.tokens_per_second() / 1e9);
    EXPECT_GT(step.resident_mb(), 1);
    EXPECT_GE(step.peak_resident_mb(), step.resident_mb());
    EXPECT_GE(step.times().other(), 0);
  }
}

}  // namespace step_metrics_test
}  // namespace braid
