// What the experiments on fine-tuning have in common, so that they share base models: text, base
// model, tasks and plain tuning with adapters.
#ifndef BRAID_REPRODUCE_TUNED_EXPERIMENT_H_
#define BRAID_REPRODUCE_TUNED_EXPERIMENT_H_

#include <string>
#include <vector>

#include "reproduce/claim.h"
#include "reproduce/experiment.h"
#include "reproduce/task_contrast.h"

namespace braid {

// Positions of a held-out window that are not scored.
inline constexpr int32_t kBaseUnscoredPositions = 1;
// Name of the arm of plain tuning.
inline constexpr char kPlainTuning[] = "plain";
// Extra tasks: topics of news; texts from attributes; sentiment of reviews, which are long, so that
// models are tuned on a part of them only.
inline constexpr char kTopicTask[] = "agnews";
inline constexpr char kTextTask[] = "e2e";
inline constexpr char kReviewsTask[] = "yelp";
// All five tasks together, and the percentage of their examples that is then trained on.
inline constexpr char kJointTask[] = "joint";
inline constexpr int kJointPercent = 30;
// Equations of problems with their numbers: tuned on those of MAWPS, asked on SVAMP.
inline constexpr char kNumbersTask[] = "svamp";

// Returns the name of the extra task with a share of the examples of another task.
std::string PartialTask(const std::string& task, int percent);

// Returns an experiment with the base model as its only arm, without name, texts and claims.
Experiment TunedExperiment();

// Returns an arm that trains adapters of rank 8 on q and v, by default of the base model as it is.
ArmDefinition AdapterArm(const std::string& name, const std::string& description);

// Returns the tasks on which models are tuned; those of kJointTask whose answers are short, each
// tuned on its part of the examples alone; and tasks of another origin: sentiment, equations, and
// sentiment where models are tuned on reviews.
std::vector<AskedTask> OwnTasks();
std::vector<AskedTask> JointTasks();
std::vector<AskedTask> OtherTasks();
std::vector<AskedTask> OtherEquations();
std::vector<AskedTask> OtherReviews();

// Returns the loss of `first` minus that of `second` on `tasks`.
TaskContrast AnswerDifference(const std::string& first, const std::string& second,
                              std::vector<AskedTask> tasks = OwnTasks());

// Reports the loss of plain tuning minus that of `arm`, and the right answers of `arm` minus those
// of plain tuning, for each task on its own: OwnTasks(), and topics, reviews and texts if the arm
// was tuned on them. Right answers of texts are left to ReportTexts.
void ReportSingleTasks(const std::string& arm, ClaimBuilder& builder);

// Reports how good the texts of `arm` are, minus those of plain tuning.
void ReportTexts(const std::string& arm, ClaimBuilder& builder);

// Reports what a search for the setting with the most right answers on each task finds
// (setting_search.h).
void ReportSearch(const std::vector<std::string>& settings, ClaimBuilder& builder);

// Returns a caution if plain tuning is no better than guessing on a task of two choices; otherwise
// "".
std::string GuessingCaution(const Evidence& evidence);

}  // namespace braid

#endif  // BRAID_REPRODUCE_TUNED_EXPERIMENT_H_
