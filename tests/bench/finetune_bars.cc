#include "tests/bench/finetune_bars.h"

#include <ATen/ATen.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>

#include "base/atomic_file.h"
#include "formats/chat_template.h"
#include "formats/tokenizer.h"
#include "model/adapter_merge.h"
#include "model/config/finetuning_config.h"
#include "model/kernels/causal_attention.h"
#include "pipeline/store/stage_store.h"
#include "pipeline/supervised/example_packing.h"
#include "pipeline/supervised/supervised_dataset.h"
#include "tests/bench/or_exit.h"

namespace braid {
namespace {

constexpr int64_t kExampleSequence = 256;

// Returns lengths of 10 to 60 tokens, 27 on average.
std::vector<int32_t> SentenceLengths(int count) {
  std::mt19937 random(7);
  std::exponential_distribution<double> more(1.0 / 20);
  std::vector<int32_t> lengths(static_cast<size_t>(count));
  for (int32_t& length : lengths) length = 10 + static_cast<int32_t>(std::min(50.0, more(random)));
  return lengths;
}

// Returns examples of random tokens in the given sequences, each of which ends with two targets.
TrainingSequences ExamplesIn(const std::vector<std::vector<uint32_t>>& sequences,
                             std::span<const int32_t> lengths) {
  TrainingSequences result;
  result.num_sequences = std::ssize(sequences);
  result.num_examples = std::ssize(lengths);
  result.inputs.assign(sequences.size() * kExampleSequence, 2);
  result.targets.assign(result.inputs.size(), -1);
  result.first_visible.resize(result.inputs.size());
  std::mt19937 random(3);
  for (size_t s = 0; s < sequences.size(); ++s) {
    const size_t first = s * kExampleSequence;
    int32_t begin = 0;
    for (const uint32_t example : sequences[s]) {
      const int32_t end = begin + lengths[example];
      for (int32_t t = begin; t < end; ++t) {
        result.inputs[first + t] = static_cast<int32_t>(random() % 1000);
        result.first_visible[first + t] = begin;
        if (t >= end - 2) result.targets[first + t] = static_cast<int32_t>(random() % 1000);
      }
      begin = end;
    }
    for (int64_t t = begin; t < kExampleSequence; ++t) result.first_visible[first + t] = begin;
  }
  return result;
}

// Returns the seconds of a training pass for each example.
double SecondsOfExample(LanguageModel& model, const TrainingSequences& data) {
  const double begin = ProcessorSeconds();
  OrExit(model
             .ForwardBackward(data.inputs, data.targets, data.num_sequences, 1, false, nullptr,
                              {.first_visible = data.first_visible})
             .status());
  return (ProcessorSeconds() - begin) / static_cast<double>(data.num_examples);
}

// A vocabulary of made-up words, of which the first are the most frequent.
class MadeUpWords {
 public:
  std::string Text(int fewest, int most) {
    const int count = fewest + static_cast<int>(random_() % static_cast<uint32_t>(most - fewest));
    std::string text;
    for (int i = 0; i < count; ++i) {
      const double rank = std::exp(8 * static_cast<double>(random_()) * 0x1p-32);
      uint32_t bits = static_cast<uint32_t>(rank) * 2654435761u;
      for (int syllable = 0; syllable < 3; ++syllable, bits /= 60) {
        text += "bdfklmnprst"[bits % 11];
        text += "aeiou"[bits / 11 % 5];
      }
      text += i + 1 < count ? ' ' : '.';
    }
    return text;
  }

 private:
  std::mt19937 random_{11};
};

std::string AlpacaRecords(int count, std::vector<std::string>* sample) {
  MadeUpWords words;
  std::string records;
  for (int i = 0; i < count; ++i) {
    const nlohmann::json record = {{"instruction", words.Text(6, 24)},
                                   {"input", i % 3 == 0 ? words.Text(10, 40) : ""},
                                   {"output", words.Text(20, 150)}};
    if (i % 20 == 0) sample->push_back(record["output"].get<std::string>());
    records += record.dump() + "\n";
  }
  return records;
}

double AttentionSeconds(const AttentionTables& tables, const at::Tensor& visible) {
  const at::Tensor qkv = at::ones({1, 1024, 3 * 512}).set_requires_grad(true);
  const double begin = ProcessorSeconds();
  CausalAttention(qkv, tables, visible).sum().backward();
  return ProcessorSeconds() - begin;
}

}  // namespace

double ProcessorSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) + 1e-6 * usage.ru_utime.tv_usec;
}

double Median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + values.size() / 2);
  return values[values.size() / 2];
}

TrainingSequences PackedSentences(int count) {
  const std::vector<int32_t> lengths = SentenceLengths(count);
  return ExamplesIn(PackBestFit(lengths, kExampleSequence, 1), lengths);
}

PackingFigures MeasurePacking(LanguageModel& model, int rounds) {
  const std::vector<int32_t> many = SentenceLengths(5000);
  int64_t tokens = 0;
  for (const int32_t length : many) tokens += length;
  const auto sequences = std::ssize(PackBestFit(many, kExampleSequence, 1));
  PackingFigures figures;
  figures.filled = static_cast<double>(tokens) / static_cast<double>(sequences * kExampleSequence);
  const std::vector<int32_t> few = SentenceLengths(8);
  const TrainingSequences packed = PackedSentences(64),
                          padded = ExamplesIn(PackSingly(std::ssize(few)), few);
  std::vector<double> packed_seconds, padded_seconds;
  for (int round = 0; round <= rounds; ++round) {
    packed_seconds.push_back(SecondsOfExample(model, packed));
    padded_seconds.push_back(SecondsOfExample(model, padded));
  }
  figures.speed = Median(padded_seconds) / Median(packed_seconds);
  return figures;
}

DatasetFigures MeasureDataset() {
  const std::filesystem::path scratch =
      std::filesystem::temp_directory_path() / ("braid-bench-finetune-" + std::to_string(getpid()));
  std::filesystem::create_directories(scratch);
  std::vector<std::string> sample;
  const std::string file = (scratch / "alpaca.jsonl").string();
  OrExit(WriteFileAtomically(file, AlpacaRecords(52'000, &sample)));
  const std::filesystem::path model = scratch / "tokenizer.model";
  OrExit(TrainTokenizer(sample, {.vocab_size = 4000}, model));
  const auto tokenizer = OrExit(Tokenizer::Load(model));
  const std::string bytes = OrExit(ReadFile(model));

  const double begin = ProcessorSeconds();
  const std::vector<std::string> files = {file};
  const RecordSet records = OrExit(ReadRecordFiles(files, "", {}));
  SupervisedSettings settings;
  settings.encoding.chat = OrExit(FindChatTemplate("alpaca"));
  settings.sequence_length = 512;
  settings.encoding.max_tokens = settings.sequence_length + 1;
  const SupervisedPlan plan = OrExit(PlanSupervised(records, nullptr, *tokenizer, settings));
  const SupervisedDataset dataset = {"alpaca", plan, records.sources, settings, *tokenizer, bytes};
  const std::string key = SupervisedKey(dataset);
  StageStore store(scratch);
  OrExit(store
             .Produce("pack", key,
                      [&](StageWriter& stage) { return WriteSupervised(dataset, key, &stage); })
             .status());
  const DatasetFigures figures = {.processor_seconds = ProcessorSeconds() - begin,
                                  .num_tokens = static_cast<double>(plan.counts.num_tokens),
                                  .filled = plan.filled};
  std::filesystem::remove_all(scratch);
  return figures;
}

double MeasureExampleAttention(int rounds) {
  const std::vector<double> frequencies(32, 1e-2);
  const AttentionTables tables = MakeAttentionTables(1024, {8, 8, 64}, frequencies, at::kFloat);
  const at::Tensor visible =
      (at::arange(1024, at::kInt).div(128, "floor") * 128).to(at::kInt).view({1, 1024});
  std::vector<double> causal, within;
  for (int round = 0; round <= 3 * rounds; ++round) {
    causal.push_back(AttentionSeconds(tables, {}));
    within.push_back(AttentionSeconds(tables, visible));
  }
  return Median(within) / Median(causal);
}

double MeasureMergedLogits(const v1::ModelConfig& config, const v1::Finetuning& finetuning) {
  const auto adapted = OrExit(LanguageModel::Create(config, 1, finetuning));
  const auto merged = OrExit(LanguageModel::Create(config, 1));
  std::mt19937 random(5);
  for (float& value : adapted->trained_values()) {
    value = 0.1f * (static_cast<float>(random()) * 0x1p-31f - 1);
  }
  std::map<std::string, std::span<float>> values;
  for (const Parameter& p : adapted->parameters()) values[p.name] = p.value;
  for (const Parameter& p : merged->parameters())
    std::ranges::copy(values.at(p.name), p.value.begin());
  for (const AdapterSpec& spec : AdaptersOf(config, finetuning)) {
    const auto matrix = std::ranges::find(merged->parameters(), spec.matrix, &Parameter::name);
    MergeAdapter(spec, AdapterScale(finetuning.lora()), values.at(spec.a), values.at(spec.b),
                 matrix->value);
  }
  std::vector<int32_t> tokens(64);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % config.vocab_size());
  const std::vector<float> a = OrExit(adapted->Logits(tokens, 1)),
                           b = OrExit(merged->Logits(tokens, 1));
  double difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::abs(double{a[i]} - double{b[i]}));
  }
  const auto [least, most] = std::ranges::minmax(a);
  return difference / (double{most} - double{least});
}

}  // namespace braid
