// A claim of the paper with its measured effects and the verdict.
#ifndef BRAID_REPRODUCE_CLAIM_H_
#define BRAID_REPRODUCE_CLAIM_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "evaluation/statistics/paired_bootstrap.h"
#include "reproduce/claim_series.h"
#include "reproduce/contrasts.h"
#include "reproduce/task_contrast.h"
#include "reproduce/verdict.h"

namespace braid {

// One effect. Effects with a rule are judged and decide the claim; the others are only reported.
struct ClaimPart {
  std::string name = {};
  // "nats per token", "share of experts", "nats".
  std::string unit = {};
  // The rule by which the effect is judged; nullopt: it is only reported.
  std::optional<VerdictRule> rule = {};
  // nullopt if it was not measured; `missing` is the reason.
  std::optional<EffectEstimate> estimate = {};
  std::string missing = {};
  Verdict verdict = Verdict::kNotMeasured;
  // True if 0 means that there is no effect; false for a share, which plots of effects leave out.
  bool is_difference = true;
};

struct Claim {
  // The number in the protocol.
  int number = 0;
  std::string name = {};
  // The place in the paper and the result there; empty for claims that are not of the paper.
  std::string source = {};
  std::string paper_result = {};
  // The first is the main effect.
  std::vector<ClaimPart> parts = {};
  std::vector<ClaimSeries> series = {};
  // Details of the measurement, such as the names of domains.
  std::vector<std::string> notes = {};
  // Reservations that are printed wherever the verdict is.
  std::vector<std::string> cautions = {};
  Verdict verdict = Verdict::kNotMeasured;
  // The verdict and the numbers in one sentence.
  std::string sentence = {};
};

inline constexpr char kLossUnit[] = "nats per token";
inline constexpr char kAnswerUnit[] = "nats per answer";
inline constexpr char kAnswerShareUnit[] = "share of answers";

struct ClaimSettings {
  PairedBootstrapOptions bootstrap = {};
  // Number of first positions of a window that main numbers leave out: the segment length of the
  // main arm.
  int32_t segment_length = 64;
};

// An effect on the held-out loss, judged by `rule` or only reported.
struct HeldoutPart {
  std::string name;
  std::optional<VerdictRule> rule;
  HeldoutContrast contrast;
};

// Builds one claim from its parts.
class ClaimBuilder {
 public:
  ClaimBuilder(const Evidence& evidence, const ClaimSettings& settings, Claim claim)
      : evidence_(evidence), settings_(settings), claim_(std::move(claim)) {}

  // Adds an effect in nats per token; the first_positions of the contrast are replaced by those of
  // the settings. Returns the effect, or nullopt if it was not measured.
  std::optional<double> AddHeldout(const std::string& name, std::optional<VerdictRule> rule,
                                   HeldoutContrast contrast);
  // Adds several in this order.
  void AddHeldout(const std::vector<HeldoutPart>& parts);
  // Adds an effect on the losses of answers in nats per answer. Returns as AddHeldout.
  std::optional<double> AddAnswers(const std::string& name, std::optional<VerdictRule> rule,
                                   const TaskContrast& contrast);
  void AddTraining(const std::string& name, std::optional<VerdictRule> rule,
                   const TrainingContrast& contrast);
  void AddStatistic(const std::string& name, const std::string& unit,
                    std::optional<VerdictRule> rule, const std::vector<SignedArm>& arms,
                    const std::function<std::optional<double>(const ArmResult&)>& statistic);
  void AddPart(const std::string& name, const std::string& unit, std::optional<VerdictRule> rule,
               const absl::StatusOr<EffectEstimate>& estimate);
  // Adds a share, which is only reported and is not a difference.
  void AddShare(const std::string& name, const std::string& unit,
                const absl::StatusOr<EffectEstimate>& estimate);
  // Adds a series, unless it has no values.
  void AddSeries(ClaimSeries series);
  void AddNote(std::string note);
  void AddCaution(std::string caution);
  // Judges the parts, composes the sentence and returns the claim.
  Claim Finish();

  const Evidence& evidence() const { return evidence_; }
  const ClaimSettings& settings() const { return settings_; }

 private:
  const Evidence& evidence_;
  const ClaimSettings& settings_;
  Claim claim_;
};

// Returns whether the effect was measured with one seed.
bool OfOneSeed(const ClaimPart& part);

// Returns the amount by which an interval of one seed is widened on both sides before it is judged;
// 0 for other intervals. Losses that are only reported have the allowance of judged ones, so that
// equal numbers appear equally certain.
double SeedAllowance(const ClaimPart& part);

// Returns whether a claim is inconclusive only because there is no second seed, without which
// effects with one number per run have no interval.
bool NeedsSecondSeed(const Claim& claim);

// Returns the note that follows the numbers of an effect: "(+-0.02 for one seed)" with a plus-minus
// sign, "(one seed, no interval)", "(no interval)" or "".
std::string SeedText(const ClaimPart& part);

// Returns "0.106 [0.090, 0.122] nats per token (+-0.02 for one seed)" or "not measured (no run of
// prefix)".
std::string PartText(const ClaimPart& part);

}  // namespace braid

#endif  // BRAID_REPRODUCE_CLAIM_H_
