#include "pipeline/supervised/supervised_plan.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <set>
#include <span>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/number_text.h"
#include "base/splitmix.h"
#include "base/status_macros.h"
#include "formats/word_encoder.h"
#include "pipeline/ordering/packing.h"
#include "pipeline/supervised/example_packing.h"
#include "retrieval/parallel_for.h"

namespace braid {
namespace {

constexpr int64_t kExamplesPerTask = 256;
constexpr uint64_t kHeldoutStream = 0x5E1D;
constexpr uint64_t kWeightStream = 0x3E16;

// The examples of a set and the records that were lost.
struct EncodedSet {
  std::vector<EncodedExample> examples;
  std::vector<std::string> places;
  std::vector<RejectedRecord> rejected;
};

std::vector<EncodedExample> EncodeRecords(std::span<const SupervisedRecord> records,
                                          const Tokenizer& tokenizer,
                                          const ExampleEncoder& encoder) {
  std::vector<EncodedExample> examples(records.size());
  WordEncoderPool pool(tokenizer, RetrievalThreads());
  ParallelFor(std::ssize(records), kExamplesPerTask, [&](int64_t begin, int64_t end) {
    std::unique_ptr<WordEncoder> words = pool.Borrow();
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      examples[i] = encoder.Encode(records[i], words.get());
      examples[i].source = records[i].source;
    }
    pool.Return(std::move(words));
  });
  return examples;
}

EncodedSet EncodeSet(const RecordSet& set, const Tokenizer& tokenizer,
                     const ExampleEncoder& encoder, const SupervisedSettings& settings) {
  std::vector<EncodedExample> encoded = EncodeRecords(set.records, tokenizer, encoder);
  EncodedSet result;
  result.rejected = set.rejected;
  for (size_t i = 0; i < encoded.size(); ++i) {
    const std::string& place = set.records[i].place;
    if (encoded[i].fault.empty()) {
      result.examples.push_back(std::move(encoded[i]));
      result.places.push_back(place);
    } else {
      // Only what does not fit has tokens to count.
      result.rejected.push_back(
          {place, encoded[i].fault,
           encoded[i].num_cut == 0 ? ""
                                   : absl::StrCat("got an answer of ", encoded[i].num_cut,
                                                  " tokens, expected at most the sequence length ",
                                                  settings.sequence_length)});
    }
  }
  return result;
}

uint64_t HashOf(const EncodedExample& example) {
  const std::string_view bytes(reinterpret_cast<const char*>(example.tokens.data()),
                               example.tokens.size() * sizeof(int32_t));
  return Mix64(0, bytes);
}

const std::string& DomainOf(const EncodedExample& example, std::span<const RecordSource> sources) {
  return sources[static_cast<size_t>(example.source)].domain;
}

// Returns the hashes of the examples to hold out: of each domain a share of the different ones,
// drawn with the seed, but never all of them.
std::unordered_set<uint64_t> DrawHeldout(std::span<const EncodedExample> examples,
                                         std::span<const RecordSource> sources, double share,
                                         uint64_t seed) {
  using Drawn = std::set<std::pair<uint64_t, uint64_t>>;  // (random number, hash)
  std::map<std::string, Drawn> by_domain;
  for (const EncodedExample& example : examples) {
    const uint64_t hash = HashOf(example);
    by_domain[DomainOf(example, sources)].emplace(Mix64(Mix64(kHeldoutStream, seed), hash), hash);
  }
  std::unordered_set<uint64_t> heldout;
  for (const auto& [domain, drawn] : by_domain) {
    auto left = static_cast<int64_t>(std::llround(share * static_cast<double>(drawn.size())));
    if (share > 0) left = std::max<int64_t>(left, 1);
    left = std::min(left, std::ssize(drawn) - 1);
    for (auto it = drawn.begin(); it != drawn.end() && left > 0; ++it, --left) {
      heldout.insert(it->second);
    }
  }
  return heldout;
}

void SplitExamples(EncodedSet all, std::span<const RecordSource> sources,
                   const SupervisedSettings& settings, SupervisedPlan* plan) {
  const auto heldout = DrawHeldout(all.examples, sources, settings.validation_share, settings.seed);
  for (size_t i = 0; i < all.examples.size(); ++i) {
    const bool held = heldout.contains(HashOf(all.examples[i]));
    PackedExamples& part = held ? plan->validation : plan->training;
    part.examples.push_back(std::move(all.examples[i]));
    part.places.push_back(std::move(all.places[i]));
  }
}

// Returns how often each example occurs.
std::vector<int64_t> CountCopies(const PackedExamples& part, std::span<const RecordSource> sources,
                                 uint64_t seed) {
  std::vector<int64_t> copies(part.examples.size());
  std::vector<std::set<std::pair<uint64_t, size_t>>> drawn(sources.size());
  for (size_t i = 0; i < part.examples.size(); ++i) {
    const auto source = static_cast<size_t>(part.examples[i].source);
    copies[i] = static_cast<int64_t>(sources[source].weight);
    drawn[source].emplace(Mix64(Mix64(kWeightStream, seed), i), i);
  }
  for (size_t s = 0; s < sources.size(); ++s) {
    const double fraction = sources[s].weight - std::floor(sources[s].weight);
    auto left = std::llround(fraction * static_cast<double>(drawn[s].size()));
    for (auto it = drawn[s].begin(); left > 0; ++it, --left) ++copies[it->second];
  }
  return copies;
}

// Repeats the examples of sources with a weight, and leaves out those that do not occur.
void Weigh(std::span<const RecordSource> sources, uint64_t seed, PackedExamples* part) {
  const auto is_one = [](const RecordSource& source) { return source.weight == 1; };
  if (std::ranges::all_of(sources, is_one)) return;
  const std::vector<int64_t> copies = CountCopies(*part, sources, seed);
  PackedExamples weighed;
  for (size_t i = 0; i < copies.size(); ++i) {
    weighed.examples.insert(weighed.examples.end(), static_cast<size_t>(copies[i]),
                            part->examples[i]);
    weighed.places.insert(weighed.places.end(), static_cast<size_t>(copies[i]), part->places[i]);
  }
  *part = std::move(weighed);
}

// Adds the sequences of some of the examples.
void Pack(std::span<const uint32_t> numbers, const SupervisedSettings& settings,
          PackedExamples* part) {
  std::vector<int32_t> lengths;
  for (const uint32_t number : numbers) {
    lengths.push_back(static_cast<int32_t>(part->examples[number].tokens.size()));
  }
  const std::vector<std::vector<uint32_t>> packed =
      settings.pack ? PackBestFit(lengths, settings.sequence_length + 1, settings.seed)
                    : PackSingly(std::ssize(numbers));
  for (const uint32_t i : InstanceShuffle(std::ssize(packed), settings.seed)) {
    std::vector<uint32_t>& sequence = part->sequences.emplace_back();
    for (const uint32_t place : packed[i]) sequence.push_back(numbers[place]);
  }
}

void PackTraining(const SupervisedSettings& settings, PackedExamples* part) {
  std::vector<uint32_t> numbers(part->examples.size());
  std::iota(numbers.begin(), numbers.end(), uint32_t{0});
  Pack(numbers, settings, part);
}

// A sequence of held-out examples has those of one domain.
void PackHeldout(std::span<const RecordSource> sources, const SupervisedSettings& settings,
                 PackedExamples* part) {
  std::map<std::string, std::vector<uint32_t>> by_domain;
  for (size_t i = 0; i < part->examples.size(); ++i) {
    by_domain[DomainOf(part->examples[i], sources)].push_back(static_cast<uint32_t>(i));
  }
  for (const auto& [domain, numbers] : by_domain) {
    Pack(numbers, settings, part);
    part->domains.resize(part->sequences.size(), domain);
  }
}

// Returns the places of training examples that are also validation examples.
std::vector<std::string> FindDuplicates(const SupervisedPlan& plan) {
  std::unordered_set<uint64_t> heldout;
  for (const EncodedExample& example : plan.validation.examples) heldout.insert(HashOf(example));
  std::vector<std::string> places;
  for (size_t i = 0; i < plan.training.examples.size(); ++i) {
    if (heldout.contains(HashOf(plan.training.examples[i]))) {
      places.push_back(plan.training.places[i]);
    }
  }
  return places;
}

SupervisedCounts Count(const SupervisedPlan& plan) {
  SupervisedCounts counts;
  for (const EncodedExample& example : plan.training.examples) {
    const auto length = static_cast<int64_t>(example.tokens.size());
    counts.num_tokens += length;
    counts.num_longest = std::max(counts.num_longest, length);
    for (const TokenRange& range : example.targets) counts.num_targets += range.end - range.begin;
    counts.num_cut += example.num_cut > 0 ? 1 : 0;
    counts.num_cut_tokens += example.num_cut;
    counts.num_cut_answers += example.num_cut_answers;
    counts.of_source.resize(
        std::max<size_t>(counts.of_source.size(), static_cast<size_t>(example.source) + 1));
    ++counts.of_source[static_cast<size_t>(example.source)];
  }
  for (const RejectedRecord& record : plan.rejected) ++counts.rejected[record.reason];
  return counts;
}

int64_t CountControlTexts(const RecordSet& set, const ChatMarkers& markers) {
  return std::ranges::count_if(set.records, [&](const SupervisedRecord& record) {
    return std::ranges::any_of(record.turns, [&](const ChatTurn& turn) {
      return markers.OccurIn(turn.text) || markers.OccurIn(turn.input);
    });
  });
}

absl::Status Refuse(const std::string& place, const std::string& fault) {
  return absl::InvalidArgumentError(absl::StrCat(
      place, ": ", fault, ", which --strict refuses; correct the record, or omit --strict"));
}

absl::Status CheckStrictly(const SupervisedPlan& plan, std::span<const std::string> duplicates,
                           std::span<const std::string> evaluated) {
  if (!plan.rejected.empty()) {
    const RejectedRecord& first = plan.rejected.front();
    return Refuse(first.place,
                  absl::StrCat(first.reason, first.detail.empty() ? "" : ": ", first.detail));
  }
  for (const PackedExamples* part : {&plan.training, &plan.validation}) {
    for (size_t i = 0; i < part->examples.size(); ++i) {
      if (part->examples[i].num_cut == 0) continue;
      return Refuse(part->places[i],
                    absl::StrCat("got ", part->examples[i].num_cut, " tokens too many"));
    }
  }
  if (!duplicates.empty()) {
    return Refuse(duplicates.front(), "got an example that is also a validation example");
  }
  if (evaluated.empty()) return absl::OkStatus();
  return Refuse(evaluated.front(), "got the text of an example that the task is evaluated on");
}

// Returns ", with weight 0.001 for FILE" for the source with the lowest weight below 1; "" if there
// is none.
std::string LowWeightText(std::span<const RecordSource> sources) {
  const auto lowest = std::ranges::min_element(sources, {}, &RecordSource::weight);
  if (lowest == sources.end() || lowest->weight >= 1) return "";
  return absl::StrCat(", with weight ", lowest->weight, " for ", lowest->path);
}

absl::Status CheckNotEmpty(const SupervisedPlan& plan, std::span<const RecordSource> sources,
                           bool validation_asked, double share) {
  const std::string lost = CountsText(plan.counts.rejected);
  if (plan.training.examples.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data: got no example to train on from ",
                     Counted(plan.counts.num_records, "record"), LowWeightText(sources),
                     ", expected at least one", lost.empty() ? "" : "; rejected: ", lost));
  }
  if (!plan.validation.examples.empty() || (!validation_asked && share == 0)) {
    return absl::OkStatus();
  }
  if (!validation_asked) {
    return absl::InvalidArgumentError(
        absl::StrCat("--validation: got a share of ", share,
                     " of one example, or of equal ones, "
                     "expected at least two different ones; add examples, or hold none out with "
                     "--validation 0"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--validation-data: got no example to validate on, expected at least one",
                   lost.empty() ? "" : "; rejected: ", lost));
}

}  // namespace

std::string CountsText(const std::map<std::string, int64_t>& counts) {
  return absl::StrJoin(counts, ", ", [](std::string* out, const auto& count) {
    absl::StrAppend(out, count.second, " ", count.first);
  });
}

absl::StatusOr<SupervisedPlan> PlanSupervised(const RecordSet& training,
                                              const RecordSet* validation,
                                              const Tokenizer& tokenizer,
                                              const SupervisedSettings& settings) {
  const ExampleEncoder encoder(tokenizer, settings.encoding);
  SupervisedPlan plan;
  EncodedSet encoded = EncodeSet(training, tokenizer, encoder, settings);
  plan.rejected = std::move(encoded.rejected);
  if (settings.labels) {
    ASSIGN_OR_RETURN(plan.labels,
                     ResolveLabels(*settings.labels, encoded.examples, encoded.places));
  }
  if (validation == nullptr) {
    SplitExamples(std::move(encoded), training.sources, settings, &plan);
  } else {
    plan.training = {std::move(encoded.examples), std::move(encoded.places), {}};
    EncodedSet heldout = EncodeSet(*validation, tokenizer, encoder, settings);
    if (plan.labels && !plan.training.examples.empty()) {
      RETURN_IF_ERROR(CheckExampleLabels(*plan.labels, "the training data has", heldout.examples,
                                         heldout.places));
    }
    plan.validation = {std::move(heldout.examples), std::move(heldout.places), {}};
    std::ranges::move(heldout.rejected, std::back_inserter(plan.rejected));
  }
  const std::vector<std::string> duplicates = FindDuplicates(plan);
  Weigh(training.sources, settings.seed, &plan.training);
  plan.counts = Count(plan);
  plan.counts.of_source.resize(training.sources.size());
  plan.counts.num_duplicates = std::ssize(duplicates);
  plan.counts.num_evaluated = std::ssize(training.evaluated);
  for (const RecordSet* set : {&training, validation}) {
    if (set == nullptr) continue;
    plan.counts.num_records += std::ssize(set->records) + std::ssize(set->rejected);
    plan.counts.num_control_texts += CountControlTexts(*set, encoder.markers());
  }
  if (settings.strict) RETURN_IF_ERROR(CheckStrictly(plan, duplicates, training.evaluated));
  RETURN_IF_ERROR(
      CheckNotEmpty(plan, training.sources, validation != nullptr, settings.validation_share));
  PackTraining(settings, &plan.training);
  PackHeldout(validation == nullptr ? training.sources : validation->sources, settings,
              &plan.validation);
  plan.filled =
      static_cast<double>(plan.counts.num_tokens) /
      static_cast<double>(std::ssize(plan.training.sequences) * (settings.sequence_length + 1));
  return plan;
}

}  // namespace braid
