// One claim of the paper: what was measured for it, and the verdict.
#ifndef BRAID_REPRODUCE_CLAIM_H_
#define BRAID_REPRODUCE_CLAIM_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "evaluation/statistics/paired_bootstrap.h"
#include "reproduce/claim_series.h"
#include "reproduce/contrasts.h"
#include "reproduce/verdict.h"

namespace braid {

// One effect. Those that are judged decide the claim; the others are told beside them.
struct ClaimPart {
  std::string name = {};
  // "nats per token", "share of experts", "nats".
  std::string unit = {};
  // What is expected of the effect; nullopt: only told.
  std::optional<VerdictRule> rule = {};
  // nullopt when not measured, for the reason in `missing`.
  std::optional<EffectEstimate> estimate = {};
  std::string missing = {};
  Verdict verdict = Verdict::kNotMeasured;
  // Whether 0 is no effect; false for a share, which has no place on the scale of effects.
  bool is_difference = true;
};

struct Claim {
  // As docs/reproduction.md numbers them.
  int number = 0;
  std::string name = {};
  // Where in arXiv 2405.03133v2, and what it reports; empty for claims of our own.
  std::string source = {};
  std::string paper_result = {};
  // The first is the headline.
  std::vector<ClaimPart> parts = {};
  std::vector<ClaimSeries> series = {};
  // What a reader has to know of how it was measured; names of domains among it.
  std::vector<std::string> notes = {};
  // What the verdict alone would hide; told wherever it is.
  std::vector<std::string> cautions = {};
  Verdict verdict = Verdict::kNotMeasured;
  // One sentence with the numbers.
  std::string sentence = {};
};

inline constexpr char kLossUnit[] = "nats per token";

struct ClaimSettings {
  PairedBootstrapOptions bootstrap;
  // Positions of a window that main numbers leave out: the segment length of the main arm.
  int32_t segment_length = 64;
};

// Gathers the parts of one claim.
class ClaimBuilder {
 public:
  ClaimBuilder(const Evidence& evidence, const ClaimSettings& settings, Claim claim)
      : evidence_(evidence), settings_(settings), claim_(std::move(claim)) {}

  // In nats per token. A contrast's first_positions are those of the settings. Returns the effect;
  // nullopt when it was not measured.
  std::optional<double> AddHeldout(const std::string& name, std::optional<VerdictRule> rule,
                                   HeldoutContrast contrast);
  void AddTraining(const std::string& name, std::optional<VerdictRule> rule,
                   const TrainingContrast& contrast);
  void AddStatistic(const std::string& name, const std::string& unit,
                    std::optional<VerdictRule> rule, const std::vector<SignedArm>& arms,
                    const std::function<std::optional<double>(const ArmResult&)>& statistic);
  void AddPart(const std::string& name, const std::string& unit, std::optional<VerdictRule> rule,
               const absl::StatusOr<EffectEstimate>& estimate);
  // Told, and no difference of anything.
  void AddShare(const std::string& name, const std::string& unit,
                const absl::StatusOr<EffectEstimate>& estimate);
  // Unless it has no values.
  void AddSeries(ClaimSeries series);
  void AddNote(std::string note);
  void AddCaution(std::string caution);
  // Judges the parts and writes the sentence.
  Claim Finish();

  const Evidence& evidence() const { return evidence_; }
  const ClaimSettings& settings() const { return settings_; }

 private:
  const Evidence& evidence_;
  const ClaimSettings& settings_;
  Claim claim_;
};

bool OfOneSeed(const ClaimPart& part);

// What the interval of one seed is widened by on both sides before it is judged. Told losses have
// that of judged ones, so that the same number looks equally sure. 0 without such an interval.
double SeedAllowance(const ClaimPart& part);

// Whether a claim is inconclusive for nothing but want of a second seed, without which numbers that
// a run has one of have no interval.
bool WantsSecondSeed(const Claim& claim);

// What is told behind the numbers of an effect: "(+-0.02 for one seed)", with the sign of plus and
// minus, "(one seed, no interval)", "(no interval)" or nothing.
std::string SeedText(const ClaimPart& part);

// "0.106 [0.090, 0.122] nats per token (+-0.02 for one seed)"; "not measured (no run of prefix)".
std::string PartText(const ClaimPart& part);

}  // namespace braid

#endif  // BRAID_REPRODUCE_CLAIM_H_
