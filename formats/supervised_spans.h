// spans.npy of a supervised dataset: which tokens of each instance form one example, and which of
// them are targets of the loss. docs/formats/dataset.md describes the directory.
//
//   ASSIGN_OR_RETURN(IndexedDataset instances, IndexedDataset::Open(directory / "instances"));
//   ASSIGN_OR_RETURN(FileSummary file, WriteSpans(directory / kSpansName, spans, instances));
//   ...
//   ASSIGN_OR_RETURN(std::vector<SupervisedSpan> spans,
//                    ReadSpans(directory / kSpansName, instances));
#ifndef BRAID_FORMATS_SUPERVISED_SPANS_H_
#define BRAID_FORMATS_SUPERVISED_SPANS_H_

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "formats/indexed_dataset.h"

namespace braid {

inline constexpr char kSpansName[] = "spans.npy";
// The labels of a dataset that has them, beside the spans.
inline constexpr char kLabelsName[] = "labels.npy";

// One answer of an example, in tokens of the instance. An example occupies consecutive tokens of
// one instance and attends to nothing else; its answers have the same `begin`. It reaches to the
// begin of the next example or, if it is the last of its instance, to the `end` of its last answer.
// Tokens in no example are padding.
struct SupervisedSpan {
  int32_t instance = 0;
  int32_t begin = 0;         // first token of the example
  int32_t answer_begin = 0;  // first target, at least begin + 1, so that a token predicts it
  int32_t end = 0;           // end of the targets, exclusive; EOS or end of turn is a target

  friend bool operator==(const SupervisedSpan&, const SupervisedSpan&) = default;
};

// Returns the number of examples: of different (instance, begin).
int64_t CountExamples(std::span<const SupervisedSpan> spans);

// Returns the spans of the held-out examples of a domain: HELDOUT_DIR/<domain>.spans.npy, beside
// HELDOUT_DIR/<domain>.bin and .idx.
std::filesystem::path HeldoutSpansPath(const std::filesystem::path& heldout_dir,
                                       const std::string& domain);

// Returns the file of the labels that belong to a file of spans: "labels.npy" for "spans.npy".
std::filesystem::path LabelsPath(const std::filesystem::path& spans_file);

// Writes one label for each row of the spans, a float32 array [n]: the number of a class from 0, or
// the number to predict. Errors: INVALID_ARGUMENT for a number that is not finite; those of
// NpyWriter.
absl::StatusOr<FileSummary> WriteLabels(const std::filesystem::path& path,
                                        std::span<const float> labels);

// Reads `num_rows` labels: the numbers of classes below `num_classes`, or, if that is 0, any finite
// numbers. Errors: DATA_LOSS, which names the file, row, got and expected; those of NpyArray.
absl::StatusOr<std::vector<float>> ReadLabels(const std::filesystem::path& path, int64_t num_rows,
                                              int64_t num_classes);

// Writes the spans of `instances`, an int32 array [n, 4], and returns what a manifest records about
// the file. Errors: INVALID_ARGUMENT, which names the row, unless the rows satisfy what ReadSpans
// guarantees; those of NpyWriter.
absl::StatusOr<FileSummary> WriteSpans(const std::filesystem::path& path,
                                       std::span<const SupervisedSpan> spans,
                                       const IndexedDataset& instances);

// Reads spans and checks every row against the index. Guarantees that
//  - there is at least one row, and rows are sorted by instance, begin and answer_begin;
//  - 0 <= begin < answer_begin < end <= the length of the instance, which exists;
//  - answers of an example do not overlap, and no example begins before the previous one ends.
// Errors: DATA_LOSS, which names the file, row, got and expected; those of NpyArray.
absl::StatusOr<std::vector<SupervisedSpan>> ReadSpans(const std::filesystem::path& path,
                                                      const IndexedDataset& instances);

}  // namespace braid

#endif  // BRAID_FORMATS_SUPERVISED_SPANS_H_
