#include "formats/supervised_spans.h"

#include <array>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "formats/npy.h"

namespace braid {
namespace {

constexpr int64_t kSpanColumns = 4;

std::string SpanText(const SupervisedSpan& span) {
  return absl::StrCat("[", span.instance, ", ", span.begin, ", ", span.answer_begin, ", ", span.end,
                      "]");
}

// Returns what a row has to be, or "" for a valid row. `previous` is null for the first one.
std::string ExpectedSpan(const SupervisedSpan& span, const SupervisedSpan* previous,
                         const IndexedDataset& instances) {
  if (span.instance < 0 || span.instance >= instances.num_sequences()) {
    return absl::StrCat("an instance below ", instances.num_sequences());
  }
  const int64_t length = instances.sequence_length(span.instance);
  if (span.begin < 0 || span.answer_begin <= span.begin || span.end <= span.answer_begin ||
      span.end > length) {
    return absl::StrCat("0 <= begin < answer_begin < end <= ", length,
                        ", the length of the instance");
  }
  if (previous == nullptr || span.instance > previous->instance) return "";
  const bool follows = span.instance == previous->instance &&
                       (span.begin == previous->begin ? span.answer_begin >= previous->end
                                                      : span.begin >= previous->end);
  return follows ? "" : absl::StrCat("a row after ", SpanText(*previous), " that does not overlap");
}

// Returns an error with `code` for the first row that is not valid.
absl::Status CheckSpans(absl::StatusCode code, const std::filesystem::path& path,
                        std::span<const SupervisedSpan> spans, const IndexedDataset& instances) {
  const std::string advice = "; prepare the supervised dataset again";
  if (spans.empty()) {
    return absl::Status(
        code, absl::StrCat(path.string(), ": got no rows, expected at least one example", advice));
  }
  for (size_t i = 0; i < spans.size(); ++i) {
    const std::string expected =
        ExpectedSpan(spans[i], i == 0 ? nullptr : &spans[i - 1], instances);
    if (expected.empty()) continue;
    return absl::Status(code, absl::StrCat(path.string(), ": row ", i, ": got ", SpanText(spans[i]),
                                           ", expected ", expected, advice));
  }
  return absl::OkStatus();
}

// Returns an error with `code` for the first label that is not a class, or not finite without any.
absl::Status CheckLabels(absl::StatusCode code, const std::filesystem::path& path,
                         std::span<const float> labels, int64_t num_classes) {
  for (size_t i = 0; i < labels.size(); ++i) {
    const bool is_class =
        num_classes == 0 || (labels[i] >= 0 && labels[i] < static_cast<float>(num_classes) &&
                             labels[i] == std::trunc(labels[i]));
    if (std::isfinite(labels[i]) && is_class) continue;
    return absl::Status(code,
                        absl::StrCat(path.string(), ": row ", i, ": got ", labels[i], ", expected ",
                                     num_classes == 0 ? std::string("a finite number")
                                                      : absl::StrCat("a class below ", num_classes),
                                     "; prepare the supervised dataset again"));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t CountExamples(std::span<const SupervisedSpan> spans) {
  int64_t count = 0;
  for (size_t i = 0; i < spans.size(); ++i) {
    if (i == 0 || spans[i].instance != spans[i - 1].instance ||
        spans[i].begin != spans[i - 1].begin) {
      ++count;
    }
  }
  return count;
}

std::filesystem::path HeldoutSpansPath(const std::filesystem::path& heldout_dir,
                                       const std::string& domain) {
  return heldout_dir / absl::StrCat(domain, ".", kSpansName);
}

std::filesystem::path LabelsPath(const std::filesystem::path& spans_file) {
  std::string name = spans_file.filename().string();
  const std::string_view end = kSpansName;
  name.replace(name.size() - end.size(), end.size(), kLabelsName);
  return spans_file.parent_path() / name;
}

absl::StatusOr<FileSummary> WriteLabels(const std::filesystem::path& path,
                                        std::span<const float> labels) {
  RETURN_IF_ERROR(CheckLabels(absl::StatusCode::kInvalidArgument, path, labels, 0));
  ASSIGN_OR_RETURN(auto writer, NpyWriter<float>::Create(path, {}));
  RETURN_IF_ERROR(writer.AppendRows(labels));
  return writer.Commit();
}

absl::StatusOr<std::vector<float>> ReadLabels(const std::filesystem::path& path, int64_t num_rows,
                                              int64_t num_classes) {
  ASSIGN_OR_RETURN(const auto array, NpyArray<float>::Open(path));
  if (array.shape().size() != 1 || array.num_rows() != num_rows) {
    return absl::DataLossError(absl::StrCat(path.string(), ": got an array of ",
                                            array.shape().size(), " dimensions and ",
                                            array.num_rows(), " rows, expected [", num_rows,
                                            "]; prepare the supervised dataset again"));
  }
  std::vector<float> labels;
  for (int64_t i = 0; i < num_rows; ++i) labels.push_back(array.row(i)[0]);
  RETURN_IF_ERROR(CheckLabels(absl::StatusCode::kDataLoss, path, labels, num_classes));
  return labels;
}

absl::StatusOr<FileSummary> WriteSpans(const std::filesystem::path& path,
                                       std::span<const SupervisedSpan> spans,
                                       const IndexedDataset& instances) {
  RETURN_IF_ERROR(CheckSpans(absl::StatusCode::kInvalidArgument, path, spans, instances));
  ASSIGN_OR_RETURN(auto writer, NpyWriter<int32_t>::Create(path, {kSpanColumns}));
  for (const SupervisedSpan& span : spans) {
    RETURN_IF_ERROR(
        writer.AppendRows(std::array{span.instance, span.begin, span.answer_begin, span.end}));
  }
  return writer.Commit();
}

absl::StatusOr<std::vector<SupervisedSpan>> ReadSpans(const std::filesystem::path& path,
                                                      const IndexedDataset& instances) {
  ASSIGN_OR_RETURN(const auto array, NpyArray<int32_t>::Open(path));
  if (array.shape().size() != 2 || array.shape()[1] != kSpanColumns) {
    return absl::DataLossError(absl::StrCat(path.string(), ": got an array of ",
                                            array.shape().size(), " dimensions with rows of ",
                                            array.row_size(), ", expected [n, ", kSpanColumns,
                                            "]; prepare the supervised dataset again"));
  }
  std::vector<SupervisedSpan> spans;
  spans.reserve(static_cast<size_t>(array.num_rows()));
  for (int64_t i = 0; i < array.num_rows(); ++i) {
    const std::span<const int32_t> row = array.row(i);
    spans.push_back({row[0], row[1], row[2], row[3]});
  }
  RETURN_IF_ERROR(CheckSpans(absl::StatusCode::kDataLoss, path, spans, instances));
  return spans;
}

}  // namespace braid
