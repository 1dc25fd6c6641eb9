// What a supervised dataset will contain: encoded examples, the validation part and the packed
// sequences. Pure computation in memory; supervised_dataset.h writes it.
#ifndef BRAID_PIPELINE_SUPERVISED_SUPERVISED_PLAN_H_
#define BRAID_PIPELINE_SUPERVISED_SUPERVISED_PLAN_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "formats/tokenizer.h"
#include "pipeline/supervised/example_encoder.h"
#include "pipeline/supervised/example_labels.h"
#include "pipeline/supervised/record_sources.h"

namespace braid {

struct SupervisedSettings {
  EncodingOptions encoding;
  int64_t sequence_length = 0;  // L
  // Whether several examples share a sequence.
  bool pack = true;
  // The share of examples to hold out, unless there are validation records: 0 to less than 1.
  double validation_share = 0.05;
  uint64_t seed = 0;
  // Refuse data of which anything would be rejected, cut or held out twice.
  bool strict = false;
  // Set when the last answers are labels (encoding.labels). Without classes these are the labels
  // that occur in the training records, sorted.
  std::optional<ExampleLabels> labels = {};
};

struct SupervisedCounts {
  int64_t num_records = 0;     // read, rejected ones included
  int64_t num_tokens = 0;      // in training examples, without padding
  int64_t num_targets = 0;     // tokens that count in training examples
  int64_t num_cut = 0;         // examples cut from the left
  int64_t num_cut_tokens = 0;  // tokens removed from them
  int64_t num_cut_answers = 0;
  int64_t num_control_texts = 0;  // records whose text looks like a control token
  int64_t num_duplicates = 0;     // training examples that are also validation examples
  int64_t num_evaluated = 0;      // records of tasks that are also evaluated on
  int64_t num_longest = 0;        // tokens of the longest training example
  std::map<std::string, int64_t> rejected = {};  // records by reason
  std::vector<int64_t> of_source = {};           // training examples of each source, repeated ones
                                                 // as often as they occur
};

// Examples and their packing.
struct PackedExamples {
  std::vector<EncodedExample> examples;
  std::vector<std::string> places;               // "FILE:LINE" of each example
  std::vector<std::vector<uint32_t>> sequences;  // examples in each sequence, in order
  std::vector<std::string> domains = {};         // one for each sequence, if held out
};

struct SupervisedPlan {
  PackedExamples training, validation;
  std::vector<RejectedRecord> rejected;
  SupervisedCounts counts;
  // Share of the positions of the training sequences that hold tokens.
  double filled = 0;
  // The settings' labels with their classes.
  std::optional<ExampleLabels> labels = {};
};

// Plans a dataset. Without validation records (`validation` null), a share of the examples of each
// domain is held out, of equal ones all or none, and at least one is left to train on. Held-out
// examples share sequences with those of their domain. Each training example
// occurs as often as the weight of its source says: for the fraction of a weight, a share of the
// source's examples, drawn with the seed, occurs once more. Encodes with
// RetrievalThreads() threads; the result does not depend on their number. Errors: INVALID_ARGUMENT
// when no training example is left, with the counts by reason, or when the validation part would be
// empty; with `strict`, for the first record that is rejected, cut, both in training and
// validation, or in training and evaluation; with labels, for the first one that is not a number or
// not a known class, for one class only, and for a class of validation records that no training
// record has.
absl::StatusOr<SupervisedPlan> PlanSupervised(const RecordSet& training,
                                              const RecordSet* validation,
                                              const Tokenizer& tokenizer,
                                              const SupervisedSettings& settings);

// Returns "3 empty answer, 1 roles out of order".
std::string CountsText(const std::map<std::string, int64_t>& counts);

}  // namespace braid

#endif  // BRAID_PIPELINE_SUPERVISED_SUPERVISED_PLAN_H_
