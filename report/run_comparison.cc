#include "report/run_comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "google/protobuf/util/message_differencer.h"
#include "report/plot_series.h"
#include "report/run_curves.h"

namespace braid {
namespace {

// Number of intervals into which the tokens of the base are divided, and the number of intervals in
// a window of one tenth.
constexpr int kPieces = 200;
constexpr int kWindow = kPieces / 10;

std::vector<PlotPoint> FinitePoints(std::span<const PlotPoint> points) {
  std::vector<PlotPoint> finite;
  for (const PlotPoint& point : points) {
    if (std::isfinite(point.x) && std::isfinite(point.y)) finite.push_back(point);
  }
  return finite;
}

// Interpolates linearly. Requires finite points and an x between the first and the last.
double ValueAt(const std::vector<PlotPoint>& points, double x) {
  const auto after =
      std::lower_bound(points.begin(), points.end(), x,
                       [](const PlotPoint& point, double value) { return point.x < value; });
  if (after == points.begin() || after->x == x) return after->y;
  const PlotPoint& before = *std::prev(after);
  return before.y + (after->y - before.y) * (x - before.x) / (after->x - before.x);
}

std::pair<double, double> MeanAndError(const std::vector<double>& values) {
  const double n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  for (const double value : values) squares += (value - sum / n) * (value - sum / n);
  return {sum / n, n > 1 ? std::sqrt(squares / (n - 1) / n) : kNan};
}

// Returns the means over complete windows of `width` tokens at distances of `width` / kWindow; x is
// the middle of the window. Windows without a point are left out.
std::vector<PlotPoint> WindowMeans(const std::vector<PlotPoint>& points, double width) {
  std::vector<PlotPoint> means;
  double sum = 0;
  size_t first = 0, last = 0;
  const double step = width / kWindow;
  // The ends are computed as multiples, since a sum would accumulate rounding errors and could miss
  // the end of the run.
  for (int64_t i = kWindow; step * static_cast<double>(i) <= points.back().x * (1 + 1e-9); ++i) {
    const double end = step * static_cast<double>(i);
    for (; last < points.size() && points[last].x <= end * (1 + 1e-9); ++last)
      sum += points[last].y;
    for (; first < last && points[first].x <= (end - width) * (1 + 1e-9); ++first) {
      sum -= points[first].y;
    }
    if (last > first) means.push_back({end - width / 2, sum / static_cast<double>(last - first)});
  }
  return means;
}

// Returns the least-squares fit of a non-increasing curve (isotonic regression by pooling adjacent
// violators). Unlike the running minimum, it is not biased downwards by noise.
std::vector<PlotPoint> Falling(std::vector<PlotPoint> points) {
  struct Block {
    double sum;
    size_t count;
    double mean() const { return sum / static_cast<double>(count); }
  };
  std::vector<Block> blocks;
  for (const PlotPoint& point : points) {
    blocks.push_back({point.y, 1});
    while (blocks.size() > 1 && blocks[blocks.size() - 2].mean() < blocks.back().mean()) {
      const Block last = blocks.back();
      blocks.pop_back();
      blocks.back().sum += last.sum;
      blocks.back().count += last.count;
    }
  }
  size_t i = 0;
  for (const Block& block : blocks) {
    for (size_t k = 0; k < block.count; ++k) points[i++].y = block.mean();
  }
  return points;
}

// Returns the x at which a falling curve reaches `level`, with linear interpolation; nullopt if it
// does not.
std::optional<double> Reaches(const std::vector<PlotPoint>& falling, double level) {
  const auto at = std::find_if(falling.begin(), falling.end(),
                               [&](const PlotPoint& point) { return point.y <= level; });
  if (at == falling.end()) return std::nullopt;
  if (at == falling.begin()) return at->x;
  const PlotPoint& before = *std::prev(at);
  return before.x + (at->x - before.x) * (before.y - level) / (before.y - at->y);
}

// Returns LossComparison::share_of_tokens. Requires finite points.
std::optional<double> ShareOfTokens(const std::vector<PlotPoint>& base,
                                    const std::vector<PlotPoint>& other) {
  const double window = base.back().x * kWindow / kPieces;
  if (!(window > 0)) return std::nullopt;
  const std::vector<PlotPoint> means = WindowMeans(base, window);
  if (means.empty()) return std::nullopt;
  // The base reaches this level, since the last value of its falling curve is not above it.
  const std::optional<double> of_base = Reaches(Falling(means), means.back().y);
  const std::optional<double> of_other =
      Reaches(Falling(WindowMeans(other, window)), means.back().y);
  if (!of_base || !of_other) return std::nullopt;
  return *of_other / *of_base;
}

// Collects the paths of the fields in which two messages differ.
class Paths : public google::protobuf::util::MessageDifferencer::Reporter {
 public:
  using Fields = std::vector<google::protobuf::util::MessageDifferencer::SpecificField>;
  using Message = google::protobuf::Message;
  void ReportAdded(const Message&, const Message&, const Fields& path) override { Add(path); }
  void ReportDeleted(const Message&, const Message&, const Fields& path) override { Add(path); }
  void ReportModified(const Message&, const Message&, const Fields& path) override {
    // A message with a field that differs is reported after that field, and is not needed.
    if (path.back().field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
      Add(path);
    }
  }
  std::vector<std::string> paths() const { return paths_; }

 private:
  void Add(const Fields& path) {
    std::string text;
    for (const auto& part : path) {
      if (part.field) text += (text.empty() ? "" : ".") + std::string(part.field->name());
    }
    if (std::find(paths_.begin(), paths_.end(), text) == paths_.end()) paths_.push_back(text);
  }
  std::vector<std::string> paths_;
};

// Returns the settings that name the data.
v1::RunSpec DataOf(const v1::RunSpec& spec) {
  v1::RunSpec data;
  data.set_dataset_dir(spec.dataset_dir());
  *data.mutable_datasets() = spec.datasets();
  *data.mutable_share_phases() = spec.share_phases();
  return data;
}

// Returns the settings that determine the data, the initial weights and the training, without those
// of the experts.
v1::RunSpec TrainingSettings(const v1::RunSpec& spec) {
  v1::RunSpec kept = DataOf(spec);
  kept.set_num_steps(spec.num_steps());
  kept.set_seed(spec.seed());
  kept.set_init_from(spec.init_from());
  kept.set_branch_from(spec.branch_from());
  if (spec.has_finetuning()) {
    *kept.mutable_finetuning() = spec.finetuning();
    // What is stored, not what is learned.
    kept.mutable_finetuning()->clear_self_contained();
    kept.mutable_finetuning()->clear_recompose();
  }
  *kept.mutable_batch() = spec.batch();
  kept.mutable_batch()->clear_micro_batch_size();
  *kept.mutable_optimizer() = spec.optimizer();
  // Batches that were left out because of a spike.
  *kept.mutable_spikes() = spec.spikes();
  *kept.mutable_model() = spec.model();
  kept.mutable_model()->clear_preset();
  kept.mutable_model()->clear_routing();
  // The losses leave the first segment out, so the segment length matters.
  kept.mutable_model()->mutable_routing()->set_segment_length(
      spec.model().routing().segment_length());
  return kept;
}

bool AreOfTheSameTokens(const v1::RunSpec& a, const v1::RunSpec& b) {
  return DataOf(a).SerializeAsString() == DataOf(b).SerializeAsString() &&
         a.model().vocab_size() == b.model().vocab_size() &&
         a.model().sequence_length() == b.model().sequence_length() &&
         a.model().routing().segment_length() == b.model().routing().segment_length();
}

}  // namespace

bool LossComparison::IsClear() const {
  return std::abs(difference) > 0 && std::abs(difference) >= 2 * standard_error;
}

std::optional<LossComparison> CompareLoss(std::span<const PlotPoint> base,
                                          std::span<const PlotPoint> other) {
  const std::vector<PlotPoint> a = FinitePoints(base), b = FinitePoints(other);
  if (a.empty() || b.empty()) return std::nullopt;
  LossComparison comparison;
  comparison.common_tokens = std::min(a.back().x, b.back().x);
  const double start = 0.9 * comparison.common_tokens;
  std::vector<double> differences;
  for (const PlotPoint& point : b) {
    if (point.x <= start || point.x > comparison.common_tokens || point.x < a.front().x) continue;
    differences.push_back(ValueAt(a, point.x) - point.y);
  }
  if (differences.empty()) return std::nullopt;
  std::tie(comparison.difference, comparison.standard_error) = MeanAndError(differences);
  if (comparison.IsClear()) comparison.share_of_tokens = ShareOfTokens(a, b);
  return comparison;
}

bool IsDense(const v1::RunSpec& spec) {
  const v1::RoutingConfig& routing = spec.model().routing();
  return routing.router() == v1::DENSE || routing.num_experts() <= 1;
}

std::vector<std::string> DifferingSettings(const v1::RunSpec& a, const v1::RunSpec& b) {
  Paths paths;
  google::protobuf::util::MessageDifferencer differencer;
  differencer.ReportDifferencesTo(&paths);
  differencer.Compare(TrainingSettings(a), TrainingSettings(b));
  return paths.paths();
}

std::vector<std::pair<size_t, size_t>> PairRuns(std::span<const ReportRun> runs) {
  std::vector<std::pair<size_t, size_t>> pairs;
  std::vector<bool> is_paired(runs.size());
  for (size_t dense = 0; dense < runs.size(); ++dense) {
    if (!IsDense(runs[dense].spec)) continue;
    for (size_t moe = 0; moe < runs.size(); ++moe) {
      if (is_paired[moe] || IsDense(runs[moe].spec)) continue;
      if (!DifferingSettings(runs[dense].spec, runs[moe].spec).empty()) continue;
      is_paired[moe] = true;
      pairs.emplace_back(dense, moe);
    }
  }
  return pairs;
}

std::vector<std::pair<size_t, size_t>> ComparablePairs(std::span<const ReportRun> runs) {
  std::vector<std::pair<size_t, size_t>> pairs = PairRuns(runs);
  if (!pairs.empty()) return pairs;
  for (size_t i = 1; i < runs.size(); ++i) {
    if (AreOfTheSameTokens(runs[0].spec, runs[i].spec)) pairs.emplace_back(0, i);
  }
  return pairs;
}

}  // namespace braid
