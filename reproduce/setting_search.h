// What a search over settings finds: papers try several settings for each task and report the best,
// chosen by the examples on which they report it. Its gain over plain tuning is positive even if
// all settings are alike, so it is compared with the gain on examples that had no part in the
// choice.
#ifndef BRAID_REPRODUCE_SETTING_SEARCH_H_
#define BRAID_REPRODUCE_SETTING_SEARCH_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "evaluation/statistics/paired_bootstrap.h"
#include "reproduce/contrasts.h"
#include "reproduce/task_contrast.h"

namespace braid {

struct SettingSearch {
  // The arm with which settings are compared.
  std::string plain = {};
  // Arms to choose from; of equal ones the first is chosen.
  std::vector<std::string> settings = {};
  std::vector<AskedTask> tasks = {};
};

struct SearchedGain {
  // The setting with the highest main figure [task], in the mean over seeds and examples.
  std::vector<std::string> chosen = {};
  // The main figure of the chosen settings minus that of `plain`, in the mean over tasks.
  EffectEstimate on_same_examples = {};
  // The same by cross-validation: each half of the examples chooses a setting for the other half.
  EffectEstimate on_other_examples = {};
};

// Returns the gain of choosing one setting per task. Its intervals treat the choice as fixed.
// Errors: those of TaskValues, for any seed.
absl::StatusOr<SearchedGain> GainOfSearch(const Evidence& evidence, const SettingSearch& search,
                                          const PairedBootstrapOptions& options);

}  // namespace braid

#endif  // BRAID_REPRODUCE_SETTING_SEARCH_H_
