// A packed dataset and a run of a model that are small enough to train in a test.
#ifndef BRAID_TESTS_TRAINER_TINY_RUN_H_
#define BRAID_TESTS_TRAINER_TINY_RUN_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "braid/v1/training.pb.h"
#include "runs/run_directory.h"
#include "trainer/training_loop.h"

namespace braid {

// Returns a new empty directory, which is removed when the program ends.
std::filesystem::path NewDirectory(const std::string& name);

struct TinyData {
  int64_t num_instances = 37;
  int64_t sequence_length = 32;
  int32_t vocab_size = 64;
  uint64_t seed = 1;
  // One of this number of sequences is random, without the rule; 0: none.
  uint64_t random_every = 0;
  // Numbers of further instances that are random.
  std::vector<int64_t> random_instances = {};
  // Held-out sequences of the domains.
  int64_t num_even = 5, num_odd = 3;
  // Two topics: each sequence has only even tokens or only odd ones, in turns, and the held-out
  // ones those of their domain.
  bool topics = false;
};

// Writes sequences that follow a noisy rule, the last one short, with held-out domains "even" and
// "odd". The tokenizer is a placeholder file.
void WriteTinyDataset(const std::filesystem::path& directory, const TinyData& data = {});

// One example of a supervised dataset: its tokens, and the ranges [begin, end) that count.
struct TinyExample {
  std::vector<int32_t> tokens;
  std::vector<std::pair<int32_t, int32_t>> answers;
  float label = 0;  // used in a dataset with labels
};

// What the labels of a dataset are; without classes and regression it has none.
struct TinyLabels {
  std::vector<std::string> classes = {};
  bool regression = false;
};

// Returns examples of at most 11 tokens; every third has two answers, each ended by EOS (2).
// Answers are functions of the prompts.
std::vector<TinyExample> TinyExamples(int64_t count, uint64_t seed = 1);

// Writes a supervised dataset with `per_instance` (1 to 3) examples in each sequence of 33 tokens,
// and a validation part of four examples.
void WriteTinySupervised(const std::filesystem::path& directory,
                         const std::vector<TinyExample>& examples, int64_t per_instance,
                         const TinyLabels& labels = {});

// Returns prompts of two or three tokens and EOS, which stands for their label: a class of three,
// or a number.
std::vector<TinyExample> TinyLabeledExamples(int64_t count, bool regression);

// Rewrites the dataset's manifest.json after a test has changed a file.
void SealDataset(const std::filesystem::path& directory);

// Returns a resolved spec: 2 layers, D 16, S 8, E 4, batch 4, dense for a quarter of the steps.
v1::RunSpec TinySpec(const std::filesystem::path& dataset, int64_t num_steps);

// The same with a dense model.
v1::RunSpec TinyDenseSpec(const std::filesystem::path& dataset, int64_t num_steps);

// Trains a dense model for six steps and returns its run.
RunDirectory TinyBase(const std::filesystem::path& dataset);

// Returns the resolved spec of a run that trains adapters of all matrices, of rank 2 with dropout,
// on top of `base`, and validates every five steps.
v1::RunSpec TinyAdapterSpec(const std::filesystem::path& dataset, const RunDirectory& base,
                            int64_t num_steps);

// Returns a clock that advances one second per call.
std::function<double()> StepClock();

// Runs the loop with one rank in `directory` and requests a stop after `stop_after` calls of
// stop_requested (never when negative). `log` receives what it prints, where it is not null.
absl::StatusOr<TrainingOutcome> TrainAlone(const RunDirectory& directory, const v1::RunSpec& spec,
                                           int64_t stop_after = -1,
                                           std::ostream* warnings = &std::cerr,
                                           std::ostream* log = nullptr);

// The same with all ranks of the spec, each a thread; returns the first error of a rank.
absl::Status TrainOnRanks(const RunDirectory& directory, const v1::RunSpec& spec,
                          int64_t stop_after = -1);

// Trains with all ranks of the spec in a new directory, one thread each.
RunDirectory Trained(const v1::RunSpec& spec);

// Returns the metrics of all steps.
std::vector<v1::StepMetrics> MetricsOf(const RunDirectory& directory);

// Returns the weights and moments of the newest checkpoint, as bytes.
std::string NewestWeights(const RunDirectory& directory);

// Returns the results of training without times: one line per step.
std::string LossLines(const RunDirectory& directory);

}  // namespace braid

#endif  // BRAID_TESTS_TRAINER_TINY_RUN_H_
