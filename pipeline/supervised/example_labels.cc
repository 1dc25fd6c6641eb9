#include "pipeline/supervised/example_labels.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace braid {
namespace {

constexpr size_t kMaxClasses = 10000;

// Numbers come in their order, before other texts.
bool IsClassBefore(const std::string& a, const std::string& b) {
  int64_t x = 0, y = 0;
  const bool is_x = absl::SimpleAtoi(a, &x), is_y = absl::SimpleAtoi(b, &y);
  if (is_x != is_y) return is_x;
  return is_x && x != y ? x < y : a < b;
}

}  // namespace

absl::Status CheckExampleLabels(const ExampleLabels& labels, const std::string& known,
                                std::span<const EncodedExample> examples,
                                std::span<const std::string> places) {
  const std::set<std::string> classes(labels.classes.begin(), labels.classes.end());
  const auto is_known = [&](const std::string& label) {
    float number = 0;
    if (labels.regression) return absl::SimpleAtof(label, &number) && std::isfinite(number);
    return classes.contains(label);
  };
  for (size_t i = 0; i < examples.size(); ++i) {
    if (is_known(examples[i].label)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(places[i], ": label: got \"", examples[i].label, "\", expected ",
                     labels.regression ? "a finite number"
                                       : absl::StrCat("one of the classes that ", known, ": ",
                                                      absl::StrJoin(labels.classes, ", "))));
  }
  return absl::OkStatus();
}

absl::StatusOr<ExampleLabels> ResolveLabels(ExampleLabels labels,
                                            std::span<const EncodedExample> examples,
                                            std::span<const std::string> places) {
  if (labels.regression || !labels.classes.empty()) {
    RETURN_IF_ERROR(CheckExampleLabels(labels, "the task or model has", examples, places));
    return labels;
  }
  std::set<std::string> seen;
  for (const EncodedExample& example : examples) seen.insert(example.label);
  if (seen.size() == 1 || seen.size() > kMaxClasses) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--label-head: got ", seen.size(), " different answer(s), such as \"", *seen.begin(),
        "\", expected 2 to ", kMaxClasses, " classes, or numbers with --label-head=regression"));
  }
  labels.classes.assign(seen.begin(), seen.end());
  std::ranges::sort(labels.classes, IsClassBefore);
  return labels;
}

std::vector<float> LabelNumbers(const ExampleLabels& labels,
                                std::span<const EncodedExample> examples) {
  std::map<std::string, float> classes;
  for (const std::string& name : labels.classes) {
    classes.emplace(name, static_cast<float>(classes.size()));
  }
  std::vector<float> numbers;
  for (const EncodedExample& example : examples) {
    float& number = numbers.emplace_back();
    if (labels.regression) {
      BRAID_CHECK(absl::SimpleAtof(example.label, &number)) << example.label;
    } else {
      number = classes.at(example.label);
    }
  }
  return numbers;
}

}  // namespace braid
