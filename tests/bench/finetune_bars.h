// Figures of fine-tuning beside its steps: data, attention within examples, merging.
#ifndef BRAID_TESTS_BENCH_FINETUNE_BARS_H_
#define BRAID_TESTS_BENCH_FINETUNE_BARS_H_

#include <cstdint>
#include <vector>

#include "model/language_model.h"

namespace braid {

// Returns the processor time of this process in user mode.
double ProcessorSeconds();

double Median(std::vector<double> values);

// Sequences of one length to train on; first_visible is empty where they hold no packed examples.
struct TrainingSequences {
  std::vector<int32_t> inputs, targets, first_visible;
  int64_t num_sequences = 0, num_examples = 0;
};

// Returns examples of random tokens, as long as those of SST-2 (10 to 60 tokens) and with two
// targets at their ends, packed into sequences of 256.
TrainingSequences PackedSentences(int count);

// For such examples: the share of positions that hold tokens when packed, and the examples a second
// that a model trains on, packed over one example a sequence.
struct PackingFigures {
  double filled = 0, speed = 0;
};
PackingFigures MeasurePacking(LanguageModel& model, int rounds);

// 52,000 made-up records in the format of Alpaca, from their file to a dataset of sequences of 512.
struct DatasetFigures {
  double processor_seconds = 0, num_tokens = 0, filled = 0;
};
DatasetFigures MeasureDataset();

// Returns the time of attention, forward and backward, within 8 examples of 128 tokens over that of
// one causal sequence of 1,024.
double MeasureExampleAttention(int rounds);

// Returns the largest difference of logits between a model with random adapters and the one into
// which they are merged, over the range of the logits.
double MeasureMergedLogits(const v1::ModelConfig& config, const v1::Finetuning& finetuning);

}  // namespace braid

#endif  // BRAID_TESTS_BENCH_FINETUNE_BARS_H_
