// Validation while training: the loss of the current weights on held-out windows that are sampled
// once per run, and the comparison with earlier validations.
//
// The windows are those of `braid eval perplexity` (evaluation/evaluation_text.h): the packed
// sequences of a domain, joined again, form a stream; window w of length L predicts its tokens
// [w L, (w + 1) L), and its input is the token before each of these, which is EOS for the first.
// Windows of a supervised dataset are the held-out instances, and only answers count.
#ifndef BRAID_TRAINER_VALIDATION_H_
#define BRAID_TRAINER_VALIDATION_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "model/language_model.h"
#include "runs/checkpoint.h"
#include "trainer/data_loader.h"
#include "trainer/parallel/communicator.h"
#include "trainer/supervised_targets.h"

namespace braid {

// Distributes `wanted` windows over domains with `available` windows each: in proportion to what is
// available (largest remainders, ties to the first), at least one for each domain that has any, and
// never more than there are.
std::vector<int64_t> AllotWindows(std::span<const int64_t> available, int64_t wanted);

// The held-out windows of a run. They are a pure function of the datasets, the seed and the number
// of windows.
class Validation {
 public:
  // Opens the held-out splits of the datasets of a resolved spec. DataLoss as DataLoader::Open.
  static absl::StatusOr<Validation> Open(const v1::RunSpec& resolved);

  int64_t num_windows() const { return static_cast<int64_t>(windows_.size()); }
  // Returns ValidationCostText (runs/validation_spec.h) of this sample.
  std::string CostText(const v1::RunSpec& resolved) const;

  // Returns the losses of the weights, and the accuracy on the answers of supervised datasets: the
  // share whose targets, tokens or a class, all have the highest logit. `seconds`
  // and the comparison with earlier validations are left unset. Collective: rank r scores the
  // windows r, r + world_size, ... Every window is scored by itself and all sums are taken in one
  // order, so the result has the same bits for every number of ranks and every batch size.
  absl::StatusOr<v1::ValidationMetrics> Score(LanguageModel& model,
                                              Communicator& communicator) const;

  // A domain and its windows, ascending.
  struct Domain {
    std::string dataset;      // empty for a run on one dataset
    std::string dataset_key;  // empty for a run on one dataset
    std::string name;
    DataLoader loader;
    std::vector<int64_t> begins;   // where the packed sequences begin in the stream, and its end
    std::vector<int64_t> windows;  // the sampled ones
    std::optional<SupervisedTargets> targets;  // set for a supervised dataset
  };
  std::span<const Domain> domains() const { return domains_; }

 private:
  struct Window {
    size_t domain;
    int64_t number;
  };

  absl::Status AddDomains(const std::string& dataset_dir, const std::string& shown_name,
                          const v1::ModelConfig& model);
  void Sample(uint64_t seed, int64_t wanted);

  std::vector<Domain> domains_;
  std::vector<std::string> without_split_;  // datasets that have no held-out split
  std::vector<Window> windows_;
};

// Compares the loss after `step` with the best so far: updates `history` and sets best_loss,
// best_step and, when `patience` > 0 validations in a row were not better, stopped_early. A loss
// that is not a number is not better.
void CompareWithBest(int64_t step, int32_t patience, ValidationHistory* history,
                     v1::ValidationMetrics* metrics);

}  // namespace braid

#endif  // BRAID_TRAINER_VALIDATION_H_
