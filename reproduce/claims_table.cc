#include "reproduce/claims_table.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/number_text.h"
#include "client/terminal/terminal_text.h"
#include "reproduce/effect_text.h"

namespace braid {
namespace {

constexpr int kVerdictColumns = 12;
// Width of "-0.106 [-0.122, -0.090]".
constexpr int kEffectColumns = 23;

// Returns the amounts by which intervals of one seed are widened, such as "±0.01 or ±0.02". Without
// a widened interval, returns the default amount.
std::string AllowancesText(std::span<const Claim> claims) {
  std::set<std::string> texts;
  for (const Claim& claim : claims) {
    for (const ClaimPart& part : claim.parts) {
      if (!part.rule || SeedAllowance(part) == 0) continue;
      texts.insert(absl::StrCat("\xC2\xB1", FormatFixed(SeedAllowance(part), 2)));
    }
  }
  if (texts.empty()) return absl::StrCat("\xC2\xB1", FormatFixed(kSingleSeedAllowance, 2));
  return absl::StrJoin(texts, " or ");
}

bool JudgesOneSeed(const Claim& claim) {
  return std::ranges::any_of(claim.parts,
                             [](const ClaimPart& part) { return part.rule && OfOneSeed(part); });
}

// Returns the effect without its unit, which follows the name.
std::string Effect(const ClaimPart& part) {
  if (!part.estimate) return "";
  const std::string interval = IntervalText(*part.estimate);
  return absl::StrCat(EffectNumber(part.estimate->effect), " ",
                      interval.empty() ? "(no interval)" : interval);
}

std::string Name(const ClaimPart& part) {
  if (!part.estimate) return absl::StrCat(part.name, " (", part.missing, ")");
  return part.unit == kLossUnit ? part.name : absl::StrCat(part.name, " (", part.unit, ")");
}

void PrintPart(const ClaimPart& part, std::ostream& out) {
  const std::string front =
      absl::StrCat("    ", PadColumns(VerdictName(part.verdict), kVerdictColumns), "  ",
                   PadColumns(Effect(part), kEffectColumns), "  ");
  out << HangingText(front, Name(part));
}

void PrintClaim(const Claim& claim, std::ostream& out) {
  out << HangingText(
      absl::StrFormat("%2d. ", claim.number),
      absl::StrCat(claim.name, ": ", absl::AsciiStrToUpper(VerdictName(claim.verdict)),
                   NeedsSecondSeed(claim) ? " (needs a second seed)" : ""));
  for (const ClaimPart& part : claim.parts) {
    if (part.rule) PrintPart(part, out);
  }
  for (const std::string& caution : claim.cautions) out << HangingText("    ", caution);
}

}  // namespace

void PrintClaims(std::span<const Claim> claims, std::ostream& out) {
  out << HangingText(
      "", "Effects with their intervals, in nats per token unless another unit is given.");
  if (std::ranges::any_of(claims, JudgesOneSeed)) {
    out << HangingText(
        "",
        absl::StrCat("One seed: intervals do not include the variation between seeds. "
                     "Losses are judged with intervals that are widened by ",
                     AllowancesText(claims), "; effects without an interval cannot be judged."));
  }
  out << "\n";
  for (const Claim& claim : claims) PrintClaim(claim, out);
}

}  // namespace braid
