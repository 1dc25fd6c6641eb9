#include "tests/trainer/tiny_run.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/check.h"
#include "base/splitmix.h"
#include "base/status_macros.h"
#include "formats/indexed_dataset.h"
#include "formats/manifest.h"
#include "formats/packed_dataset.h"
#include "formats/supervised_spans.h"
#include "gtest/gtest.h"
#include "model/language_model.h"
#include "runs/checkpoint_directory.h"
#include "runs/run_spec.h"
#include "tests/base/status_matchers.h"
#include "tests/trainer/parallel/threaded_communicator.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

void Expect(const absl::Status& status) { BRAID_CHECK(status.ok()) << status.ToString(); }

// The next token is a fixed function of the current one in three of four cases. Those of a topic
// are even (0) or odd (1).
std::vector<int32_t> NoisySequence(const TinyData& data, uint64_t number, int64_t length,
                                   std::optional<int32_t> topic) {
  const auto in_topic = [&](int32_t token) {
    return topic ? std::max(4, token - token % 2) + *topic : token;
  };
  const bool random = (data.random_every > 0 && number % data.random_every == 0) ||
                      std::ranges::count(data.random_instances, static_cast<int64_t>(number)) > 0;
  std::vector<int32_t> tokens = {in_topic(static_cast<int32_t>(3 + number % 5))};
  while (static_cast<int64_t>(tokens.size()) < length) {
    const uint64_t bits = Mix64(Mix64(data.seed, number), tokens.size());
    const int32_t rule = 3 + (tokens.back() * 7 + 5) % (data.vocab_size - 3);
    const int32_t noise = 3 + static_cast<int32_t>((bits >> 8) % (data.vocab_size - 3));
    tokens.push_back(in_topic(random || bits % 4 == 0 ? noise : rule));
  }
  return tokens;
}

// `topic` is that of all sequences; without it topics take turns.
void WriteSequences(const fs::path& prefix, const TinyData& data, uint64_t first, int64_t count,
                    std::optional<int32_t> topic = {}) {
  auto writer = IndexedDatasetWriter::Create(prefix, data.vocab_size);
  Expect(writer.status());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t length = i + 1 < count ? data.sequence_length + 1 : data.sequence_length / 3;
    std::optional<int32_t> of_sequence;
    if (data.topics) of_sequence = topic.value_or(static_cast<int32_t>(i % 2));
    Expect((*writer)->AddSequence(NoisySequence(data, first + i, length, of_sequence)));
    (*writer)->EndDocument();
  }
  Expect((*writer)->Commit().status());
}

// Writes PREFIX.bin/.idx and their spans; returns the number of instances.
int64_t WriteExamples(const fs::path& prefix, const fs::path& spans_file,
                      std::span<const TinyExample> examples, int64_t per_instance, bool labeled) {
  auto writer = IndexedDatasetWriter::Create(prefix, 64);
  Expect(writer.status());
  std::vector<SupervisedSpan> spans;
  std::vector<float> labels;
  int32_t instances = 0;
  for (size_t i = 0; i < examples.size(); ++instances) {
    std::vector<int32_t> tokens;
    for (int64_t n = 0; n < per_instance && i < examples.size(); ++n, ++i) {
      const auto begin = static_cast<int32_t>(tokens.size());
      for (const auto& [from, to] : examples[i].answers) {
        spans.push_back({instances, begin, begin + from, begin + to});
        labels.push_back(examples[i].label);
      }
      tokens.insert(tokens.end(), examples[i].tokens.begin(), examples[i].tokens.end());
    }
    BRAID_CHECK(tokens.size() <= 33) << tokens.size();
    tokens.resize(33, 2);
    Expect((*writer)->AddSequence(tokens));
    (*writer)->EndDocument();
  }
  Expect((*writer)->Commit().status());
  const auto dataset = IndexedDataset::Open(prefix);
  Expect(dataset.status());
  Expect(WriteSpans(spans_file, spans, *dataset).status());
  if (labeled) Expect(WriteLabels(LabelsPath(spans_file), labels).status());
  return instances;
}

}  // namespace

std::vector<TinyExample> TinyExamples(int64_t count, uint64_t seed) {
  std::vector<TinyExample> examples;
  for (int64_t n = 0; n < count; ++n) {
    TinyExample example;
    const uint64_t bits = Mix64(seed, static_cast<uint64_t>(n));
    for (int turn = 0; turn < (n % 3 == 2 ? 2 : 1); ++turn) {
      const auto a = static_cast<int32_t>(10 + (bits >> (8 * turn)) % 25);
      const auto b = static_cast<int32_t>(10 + (bits >> (8 * turn + 30)) % 25);
      example.tokens.insert(example.tokens.end(), {4 + turn, a, b});
      const auto begin = static_cast<int32_t>(example.tokens.size());
      example.tokens.push_back(35 + (a + b) % 25);
      if (n % 2 == 0) example.tokens.push_back(35 + (a + 2 * b) % 25);
      example.tokens.push_back(2);
      example.answers.emplace_back(begin, static_cast<int32_t>(example.tokens.size()));
    }
    BRAID_CHECK(example.tokens.size() <= 12) << example.tokens.size();
    examples.push_back(std::move(example));
  }
  return examples;
}

std::vector<TinyExample> TinyLabeledExamples(int64_t count, bool regression) {
  std::vector<TinyExample> examples;
  for (int64_t n = 0; n < count; ++n) {
    const uint64_t bits = Mix64(5, static_cast<uint64_t>(n));
    const auto a = static_cast<int32_t>(10 + bits % 25), b = static_cast<int32_t>(n % 3);
    TinyExample example{.tokens = {4, a}, .answers = {}};
    if (n % 2 == 0) example.tokens.push_back(40 + b);
    example.tokens.push_back(2);
    const auto end = static_cast<int32_t>(example.tokens.size());
    example.answers = {{end - 1, end}};
    example.label = regression ? static_cast<float>(a) / 10 - 2.5f : static_cast<float>(a % 3);
    examples.push_back(std::move(example));
  }
  return examples;
}

void WriteTinySupervised(const fs::path& directory, const std::vector<TinyExample>& examples,
                         int64_t per_instance, const TinyLabels& labels) {
  fs::create_directories(directory / "heldout");
  const bool labeled = labels.regression || !labels.classes.empty();
  const int64_t instances = WriteExamples(directory / "instances", directory / kSpansName, examples,
                                          per_instance, labeled);
  const fs::path heldout = directory / "heldout";
  WriteExamples(heldout / "validation", HeldoutSpansPath(heldout, "validation"),
                labeled ? TinyLabeledExamples(4, labels.regression) : TinyExamples(4, 77),
                per_instance, labeled);
  Expect(WriteFileAtomically(directory / "tokenizer.model", "placeholder"));
  const DatasetInfo info = {.name = "answers",
                            .key = absl::StrCat("s", per_instance),
                            .order = "SOURCE",
                            .sequence_length = 32,
                            .vocab_size = 64,
                            .eos_id = 2,
                            .num_instances = instances,
                            .num_tokens = instances * 33,
                            .domains = {"validation"},
                            .supervised = true,
                            .num_examples = std::ssize(examples),
                            .classes = labels.classes,
                            .regression = labels.regression};
  Expect(WriteDatasetInfo(directory, info).status());
  SealDataset(directory);
}

fs::path NewDirectory(const std::string& name) {
  // Removed when the test program ends.
  struct Scratch {
    Scratch() : path(fs::path(testing::TempDir()) / absl::StrCat("braid-loop-", getpid())) {}
    ~Scratch() { fs::remove_all(path); }
    const fs::path path;
  };
  static const Scratch scratch;
  static std::atomic<int> number{0};
  const fs::path path = scratch.path / absl::StrCat(name, "-", number.fetch_add(1));
  fs::create_directories(path);
  return path;
}

void WriteTinyDataset(const fs::path& directory, const TinyData& data) {
  fs::create_directories(directory / "heldout");
  WriteSequences(directory / "instances", data, 0, data.num_instances);
  WriteSequences(directory / "heldout" / "even", data, 1000, data.num_even, 0);
  WriteSequences(directory / "heldout" / "odd", data, 2000, data.num_odd, 1);
  Expect(WriteFileAtomically(directory / "tokenizer.model", "placeholder"));
  const DatasetInfo info = {.name = "tiny",
                            .key = absl::StrCat("k", data.seed),
                            .order = "SOURCE",
                            .sequence_length = data.sequence_length,
                            .vocab_size = data.vocab_size,
                            .eos_id = 2,
                            .num_instances = data.num_instances,
                            .num_tokens = data.num_instances * (data.sequence_length + 1),
                            .domains = {"even", "odd"},
                            .seed = data.seed};
  Expect(WriteDatasetInfo(directory, info).status());
  SealDataset(directory);
}

void SealDataset(const fs::path& directory) {
  const auto info = ReadDatasetInfo(directory);
  Expect(info.status());
  Manifest manifest = {.kind = "pack", .key = info->key, .files = {}, .settings = {}};
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file() || entry.path().filename() == kManifestName) continue;
    auto summary = SummarizeFile(entry.path());
    Expect(summary.status());
    summary->name = entry.path().lexically_relative(directory).string();
    manifest.files.push_back(MakeManifestEntry(*summary, 0));
  }
  Expect(manifest.Save(directory));
}

namespace {

// Returns the spec that TinySpec resolves.
v1::RunSpec AskedSpec(const fs::path& dataset, int64_t num_steps) {
  v1::RunSpec spec;
  spec.set_dataset_dir(dataset.string());
  v1::ModelConfig* model = spec.mutable_model();
  model->set_num_layers(2);
  model->set_d_model(16);
  model->set_num_heads(2);
  model->set_d_ff(32);
  model->mutable_routing()->set_num_experts(4);
  model->mutable_routing()->set_segment_length(8);
  spec.mutable_optimizer()->set_learning_rate(5e-3);
  spec.mutable_upcycling()->set_dense_fraction(0.25);
  spec.set_num_steps(num_steps);
  spec.mutable_checkpoint()->set_every_steps(num_steps);
  spec.set_threads_per_rank(1);
  spec.set_routing_every_steps(5);
  return spec;
}

v1::RunSpec Resolved(const v1::RunSpec& spec) {
  const auto resolved = ResolveRunSpec(spec);
  Expect(resolved.status());
  return *resolved;
}

}  // namespace

v1::RunSpec TinySpec(const fs::path& dataset, int64_t num_steps) {
  return Resolved(AskedSpec(dataset, num_steps));
}

v1::RunSpec TinyDenseSpec(const fs::path& dataset, int64_t num_steps) {
  v1::RunSpec spec = AskedSpec(dataset, num_steps);
  spec.mutable_model()->clear_routing();
  spec.clear_upcycling();
  return Resolved(spec);
}

RunDirectory TinyBase(const fs::path& dataset) {
  const RunDirectory run(NewDirectory("base"));
  const v1::RunSpec spec = TinyDenseSpec(dataset, 6);
  Expect(run.WriteSpec(spec));
  Expect(TrainAlone(run, spec).status());
  return run;
}

v1::RunSpec TinyAdapterSpec(const fs::path& dataset, const RunDirectory& base, int64_t num_steps) {
  v1::RunSpec spec;
  spec.set_dataset_dir(dataset.string());
  spec.set_init_from(base.root().string());
  spec.set_num_steps(num_steps);
  spec.set_threads_per_rank(1);
  spec.mutable_optimizer()->set_learning_rate(2e-2);
  spec.mutable_checkpoint()->set_every_steps(num_steps);
  spec.mutable_validation()->mutable_every()->set_steps(5);
  spec.mutable_validation()->set_windows(4);
  v1::LoraConfig* const lora = spec.mutable_finetuning()->mutable_lora();
  lora->set_rank(2);
  lora->set_dropout(0.1);
  for (const char* target : {"q", "k", "v", "o", "gate", "up", "down"}) lora->add_targets(target);
  return Resolved(spec);
}

std::function<double()> StepClock() {
  return [now = std::make_shared<double>(1.7e9)] { return *now += 1.0; };
}

absl::StatusOr<TrainingOutcome> TrainAlone(const RunDirectory& directory, const v1::RunSpec& spec,
                                           int64_t stop_after, std::ostream* warnings,
                                           std::ostream* log) {
  SetModelThreads(1);
  SingleProcess alone;
  std::ostringstream unread;
  LoopEnvironment environment;
  environment.communicator = &alone;
  environment.now = StepClock();
  environment.out = log == nullptr ? &unread : log;
  environment.warnings = warnings;
  environment.stop_requested = [&stop_after] { return stop_after > 0 && --stop_after == 0; };
  return TrainingLoop(directory, spec, environment).Run();
}

absl::Status TrainOnRanks(const RunDirectory& directory, const v1::RunSpec& spec,
                          int64_t stop_after) {
  SetModelThreads(1);
  const auto statuses = RunThreadedRanks(spec.world_size(), [&](Communicator& ranks) {
    std::ostringstream out;
    LoopEnvironment environment;
    environment.communicator = &ranks;
    environment.now = StepClock();
    environment.out = &out;
    environment.stop_requested = [left = stop_after]() mutable { return left > 0 && --left == 0; };
    return TrainingLoop(directory, spec, environment).Run().status();
  });
  for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

RunDirectory Trained(const v1::RunSpec& spec) {
  RunDirectory run(NewDirectory("run"));
  SetModelThreads(1);
  EXPECT_OK(TrainOnRanks(run, spec));
  return run;
}

std::vector<v1::StepMetrics> MetricsOf(const RunDirectory& directory) {
  auto metrics = directory.ReadMetrics(0);
  EXPECT_TRUE(metrics.ok()) << metrics.status();
  return *std::move(metrics);
}

std::string NewestWeights(const RunDirectory& directory) {
  std::vector<std::string> skipped;
  const auto newest = NewestGoodCheckpoint(directory.checkpoints(), &skipped);
  Expect(newest.status());
  BRAID_CHECK(newest->has_value()) << directory.root();
  std::string bytes = (*newest)->filename().string();
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(**newest)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    const auto content = ReadFile(file);
    Expect(content.status());
    absl::StrAppend(&bytes, file.filename().string(), *content);
  }
  return bytes;
}

std::string LossLines(const RunDirectory& directory) {
  const auto metrics = directory.ReadMetrics(0);
  Expect(metrics.status());
  std::string lines;
  for (v1::StepMetrics m : *metrics) {
    m.clear_time();
    m.clear_step_seconds();
    m.clear_tokens_per_second();
    m.clear_gflops();
    m.clear_model_flops_utilization();
    m.clear_times();
    m.clear_resident_mb();
    m.clear_peak_resident_mb();
    // active_experts counts over the last steps, which a resumed run does not know.
    for (v1::LayerRouting& layer : *m.mutable_routing()) layer.clear_active_experts();
    lines += MetricsLine(m) + "\n";
  }
  return lines;
}

}  // namespace braid
