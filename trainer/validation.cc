#include "trainer/validation.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <utility>

#include "base/splitmix.h"
#include "base/status_macros.h"
#include "formats/packed_dataset.h"
#include "model/config/model_config.h"
#include "runs/instance_schedule.h"
#include "runs/main_figures.h"
#include "runs/validation_spec.h"

namespace braid {
namespace {

// Sums over the tokens of some windows.
struct WindowSums {
  double nats = 0;
  double tokens = 0;
  double nats_after = 0;  // without the first segment
  double tokens_after = 0;
  double answers = 0;  // all but numbers
  double correct = 0;  // answers whose targets all have the highest logit

  void Add(const WindowSums& other) {
    nats += other.nats;
    tokens += other.tokens;
    nats_after += other.nats_after;
    tokens_after += other.tokens_after;
    answers += other.answers;
    correct += other.correct;
  }
  double loss() const { return tokens > 0 ? nats / tokens : 0; }
  double loss_after() const { return tokens_after > 0 ? nats_after / tokens_after : 0; }
};
constexpr size_t kNumbersPerWindow = 6;

int64_t NumWindows(const Validation::Domain& domain) {
  if (domain.targets.has_value()) return domain.loader.num_instances();
  const int64_t length = domain.loader.sequence_length();
  return (domain.begins.back() + length - 1) / length;
}

// Returns the input of a window's first token and the tokens that the window predicts.
absl::StatusOr<std::vector<int32_t>> ReadWindow(const Validation::Domain& domain, int64_t window) {
  const int64_t length = domain.loader.sequence_length();
  const int64_t begin = std::max<int64_t>(window * length - 1, 0);
  const int64_t end = std::min((window + 1) * length, domain.begins.back());
  std::vector<int32_t> tokens;
  if (window == 0) tokens.push_back(domain.loader.eos_id());
  auto sequence = std::upper_bound(domain.begins.begin(), domain.begins.end(), begin) - 1;
  for (; sequence + 1 != domain.begins.end() && *sequence < end; ++sequence) {
    ASSIGN_OR_RETURN(const std::vector<int32_t> packed,
                     domain.loader.Read(sequence - domain.begins.begin()));
    const int64_t from = std::max<int64_t>(begin - *sequence, 0);
    const int64_t to = std::min<int64_t>(end - *sequence, std::ssize(packed));
    tokens.insert(tokens.end(), packed.begin() + from, packed.begin() + to);
  }
  return tokens;
}

// Returns the sums over the answers of an instance. Their tokens are not divided by segments.
absl::StatusOr<WindowSums> ScoreAnswers(const Validation::Domain& domain, int64_t instance,
                                        LanguageModel& model) {
  ASSIGN_OR_RETURN(Batch batch, domain.loader.Load(std::span(&instance, 1)));
  domain.targets->Apply(instance, 0, &batch);
  ASSIGN_OR_RETURN(
      const ForwardResult result,
      model.Evaluate(batch.inputs, batch.targets, /*batch_size=*/1, MergeMode::kSegment,
                     /*want_routing=*/false, batch.first_visible, batch.numbers,
                     /*want_predicted=*/true));
  WindowSums sums;
  for (size_t t = 0; t < batch.targets.size(); ++t) {
    if (batch.targets[t] < 0) continue;
    sums.nats += result.token_loss[t];
    ++sums.tokens;
  }
  if (result.predicted.empty()) return sums;
  for (const SupervisedSpan& answer : domain.targets->AnswersOf(instance)) {
    bool correct = true;
    // Targets are the tokens after the inputs.
    for (int32_t t = answer.answer_begin - 1; t < answer.end - 1; ++t) {
      correct &= result.predicted[t] == batch.targets[t];
    }
    ++sums.answers;
    sums.correct += correct;
  }
  return sums;
}

absl::StatusOr<WindowSums> ScoreWindow(const Validation::Domain& domain, int64_t window,
                                       LanguageModel& model) {
  if (domain.targets.has_value()) return ScoreAnswers(domain, window, model);
  ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, ReadWindow(domain, window));
  const Batch batch = domain.loader.Assemble(std::span(&tokens, 1));
  ASSIGN_OR_RETURN(const ForwardResult result,
                   model.Evaluate(batch.inputs, batch.targets, /*batch_size=*/1,
                                  MergeMode::kSegment, /*want_routing=*/false));
  const int64_t segment = model.config().routing().segment_length();
  WindowSums sums;
  for (int64_t t = 0; t < batch.lengths[0]; ++t) {
    sums.nats += result.token_loss[t];
    ++sums.tokens;
    if (t < segment) continue;
    sums.nats_after += result.token_loss[t];
    ++sums.tokens_after;
  }
  return sums;
}

}  // namespace

std::vector<int64_t> AllotWindows(std::span<const int64_t> available, int64_t wanted) {
  const int64_t total = std::accumulate(available.begin(), available.end(), int64_t{0});
  std::vector<int64_t> counts(available.size());
  if (total == 0) return counts;
  wanted = std::min(wanted, total);
  std::vector<std::pair<double, size_t>> remainders;
  for (size_t d = 0; d < available.size(); ++d) {
    const double quota = static_cast<double>(wanted) * static_cast<double>(available[d]) /
                         static_cast<double>(total);
    counts[d] = std::max<int64_t>(static_cast<int64_t>(quota), available[d] > 0 ? 1 : 0);
    remainders.emplace_back(static_cast<double>(counts[d]) - quota, d);
  }
  // These are negative remainders: the largest remainder comes first, and of equal ones the first
  // domain.
  std::sort(remainders.begin(), remainders.end());
  int64_t left = wanted - std::accumulate(counts.begin(), counts.end(), int64_t{0});
  for (size_t i = 0; left > 0 && i < remainders.size(); ++i) {
    const size_t d = remainders[i].second;
    if (counts[d] >= available[d]) continue;
    ++counts[d];
    --left;
  }
  // The first window of every domain may have made too many.
  for (auto largest = std::max_element(counts.begin(), counts.end()); left < 0 && *largest > 1;
       largest = std::max_element(counts.begin(), counts.end())) {
    --*largest;
    ++left;
  }
  return counts;
}

absl::StatusOr<Validation> Validation::Open(const v1::RunSpec& resolved) {
  Validation validation;
  if (resolved.datasets().empty()) {
    RETURN_IF_ERROR(validation.AddDomains(resolved.dataset_dir(), "", resolved.model()));
  }
  for (const v1::MixtureDataset& entry : resolved.datasets()) {
    RETURN_IF_ERROR(validation.AddDomains(entry.dataset(), entry.dataset(), resolved.model()));
  }
  validation.Sample(resolved.seed(), resolved.validation().windows());
  return validation;
}

std::string Validation::CostText(const v1::RunSpec& resolved) const {
  return ValidationCostText(resolved, num_windows(), without_split_);
}

absl::Status Validation::AddDomains(const std::string& dataset_dir, const std::string& shown_name,
                                    const v1::ModelConfig& model) {
  ASSIGN_OR_RETURN(const DatasetInfo info, ReadDatasetInfo(dataset_dir));
  if (info.domains.empty()) without_split_.push_back(dataset_dir);
  const std::filesystem::path heldout = std::filesystem::path(dataset_dir) / "heldout";
  for (const std::string& name : info.domains) {
    ASSIGN_OR_RETURN(DataLoader loader, DataLoader::Open(heldout / name, info));
    std::optional<SupervisedTargets> targets;
    if (info.supervised) {
      ASSIGN_OR_RETURN(targets,
                       SupervisedTargets::Open(HeldoutSpansPath(heldout, name), loader,
                                               RoutesOnOtherTokens(model.routing()), model));
    }
    std::vector<int64_t> begins = {0};
    for (int64_t i = 0; i < loader.num_instances(); ++i) {
      begins.push_back(begins.back() + loader.length(i));
    }
    domains_.push_back({.dataset = shown_name,
                        .dataset_key = shown_name.empty() ? "" : info.key,
                        .name = name,
                        .loader = std::move(loader),
                        .begins = std::move(begins),
                        .windows = {},
                        .targets = std::move(targets)});
  }
  return absl::OkStatus();
}

void Validation::Sample(uint64_t seed, int64_t wanted) {
  std::vector<int64_t> available;
  for (const Domain& domain : domains_) available.push_back(NumWindows(domain));
  const std::vector<int64_t> counts = AllotWindows(available, wanted);
  for (size_t d = 0; d < domains_.size(); ++d) {
    // Keyed by data and name: other domains change how many windows are drawn from this one, but
    // not the order in which they are drawn.
    const uint64_t key = Mix64(Mix64(seed, domains_[d].dataset_key), domains_[d].name);
    for (int64_t i = 0; i < counts[d]; ++i) {
      domains_[d].windows.push_back(static_cast<int64_t>(
          PermutedIndex(static_cast<uint64_t>(i), static_cast<uint64_t>(available[d]), key)));
    }
    std::sort(domains_[d].windows.begin(), domains_[d].windows.end());
    for (const int64_t number : domains_[d].windows) windows_.push_back({d, number});
  }
}

absl::StatusOr<v1::ValidationMetrics> Validation::Score(LanguageModel& model,
                                                        Communicator& communicator) const {
  // Each rank fills in its own windows; a sum with zeros is exact.
  std::vector<double> numbers(windows_.size() * kNumbersPerWindow);
  absl::Status mine;
  for (size_t w = communicator.rank(); w < windows_.size() && mine.ok();
       w += communicator.world_size()) {
    const auto sums = ScoreWindow(domains_[windows_[w].domain], windows_[w].number, model);
    mine = sums.status();
    if (!sums.ok()) break;
    double* const to = &numbers[w * kNumbersPerWindow];
    to[0] = sums->nats, to[1] = sums->tokens;
    to[2] = sums->nats_after, to[3] = sums->tokens_after;
    to[4] = sums->answers, to[5] = sums->correct;
  }
  // Before the sum, in which the others would wait for a rank that failed.
  RETURN_IF_ERROR(AgreeOnStatus(communicator, mine));
  RETURN_IF_ERROR(communicator.AllReduceSum(std::span<double>(numbers)));
  // Every rank adds in the order of the windows, so the bits do not depend on the number of ranks.
  WindowSums total;
  std::vector<WindowSums> by_domain(domains_.size());
  for (size_t w = 0; w < windows_.size(); ++w) {
    const double* const from = &numbers[w * kNumbersPerWindow];
    const WindowSums sums = {from[0], from[1], from[2], from[3], from[4], from[5]};
    total.Add(sums);
    by_domain[windows_[w].domain].Add(sums);
  }
  v1::ValidationMetrics metrics;
  metrics.set_loss(total.loss());
  metrics.set_loss_after_first_segment(total.loss_after());
  metrics.set_num_windows(num_windows());
  if (total.answers > 0) metrics.set_accuracy(total.correct / total.answers);
  for (size_t d = 0; d < domains_.size(); ++d) {
    v1::ValidationDomain* const domain = metrics.add_domains();
    domain->set_dataset(domains_[d].dataset);
    domain->set_domain(domains_[d].name);
    domain->set_loss(by_domain[d].loss());
    domain->set_loss_after_first_segment(by_domain[d].loss_after());
    domain->set_num_windows(std::ssize(domains_[d].windows));
  }
  return metrics;
}

void CompareWithBest(int64_t step, int32_t patience, ValidationHistory* history,
                     v1::ValidationMetrics* metrics) {
  const double loss = MainLoss(*metrics);
  if (std::isfinite(loss) && (history->best_step == 0 || loss < history->best_loss)) {
    *history = {.best_loss = loss, .best_step = step, .num_worse = 0};
  } else {
    ++history->num_worse;
  }
  metrics->set_best_loss(history->best_loss);
  metrics->set_best_step(history->best_step);
  metrics->set_stopped_early(patience > 0 && history->num_worse >= patience);
}

}  // namespace braid
