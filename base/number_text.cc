#include "base/number_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"

namespace braid {
namespace {

constexpr char kDash[] = "\xE2\x80\x93";
constexpr char kPercentSign[] = "\xC2\xA0%";
// Beyond this a number of seconds is not a time but a mistake.
constexpr double kMaxSeconds = 1e11;
// From here on a number has an exponent, such as the perplexity of a model that diverged.
constexpr double kMostFixed = 1e12;

// Returns three significant digits of a number below 1000, or two after the point.
std::string ThreeDigits(double value) {
  const double size = std::abs(value);
  return absl::StrFormat("%.*f", size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2, value);
}

}  // namespace

std::string FormatFixed(double value, int digits) {
  if (!std::isfinite(value)) return kDash;
  if (std::abs(value) >= kMostFixed) return absl::StrFormat("%.4g", value);
  return absl::StrFormat("%.*f", digits, value);
}

std::string FormatSigned(double value, int digits) {
  if (!std::isfinite(value)) return kDash;
  if (std::abs(value) >= kMostFixed) return absl::StrFormat("%+.4g", value);
  return absl::StrFormat("%+.*f", digits, value);
}

std::string FormatPercent(double share) {
  if (!std::isfinite(share)) return kDash;
  return FormatFixed(100 * share, 1) + kPercentSign;
}

std::string FormatShortPercent(double share) {
  if (!std::isfinite(share)) return kDash;
  return absl::StrFormat("%.4g%s", 100 * share, kPercentSign);
}

std::string FormatCount(double value) {
  if (!std::isfinite(value)) return kDash;
  constexpr std::array<const char*, 5> kSuffixes = {"", "k", "M", "B", "T"};
  size_t suffix = 0;
  // 999.5 is where three digits would round to four.
  while (std::abs(value) >= 999.5 && suffix + 1 < kSuffixes.size()) {
    value /= 1000;
    ++suffix;
  }
  if (value == std::floor(value)) return absl::StrFormat("%.0f%s", value, kSuffixes[suffix]);
  return ThreeDigits(value) + kSuffixes[suffix];
}

std::string FormatBytes(double bytes) {
  if (!std::isfinite(bytes)) return kDash;
  constexpr std::array<const char*, 4> kUnits = {" KiB", " MiB", " GiB", " TiB"};
  size_t unit = 0;
  for (bytes /= 1024; bytes >= 999.5 && unit + 1 < kUnits.size(); bytes /= 1024) ++unit;
  return ThreeDigits(bytes) + kUnits[unit];
}

std::string CompactCount(double value) {
  if (value < 1000) return absl::StrFormat("%.0f", value);
  if (value < 1e6) return absl::StrFormat("%.1fk", value / 1e3);
  if (value < 1e9) return absl::StrFormat("%.1fM", value / 1e6);
  return absl::StrFormat("%.1fG", value / 1e9);
}

std::string WithThousands(int64_t value) {
  std::string digits = absl::StrCat(value);
  const int first = value < 0 ? 1 : 0;
  for (int i = static_cast<int>(digits.size()) - 3; i > first; i -= 3) {
    digits.insert(digits.begin() + i, ',');
  }
  return digits;
}

std::string Counted(int64_t count, const char* singular) {
  return absl::StrCat(WithThousands(count), " ", singular, count == 1 ? "" : "s");
}

std::string SomeOf(const std::vector<std::string>& names, size_t most) {
  if (names.size() <= most) return absl::StrJoin(names, ", ");
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(most);
  return absl::StrCat(absl::StrJoin(names.begin(), end, ", "), " and ", names.size() - most,
                      " more");
}

std::string FormatDuration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > kMaxSeconds) return kDash;
  if (seconds < 9.95) return absl::StrFormat("%.1f s", seconds);
  const int64_t whole = std::llround(seconds);
  if (whole < 60) return absl::StrFormat("%d s", whole);
  if (whole < 3600) return absl::StrFormat("%d min %d s", whole / 60, whole % 60);
  if (whole < 86400) return absl::StrFormat("%d h %d min", whole / 3600, whole % 3600 / 60);
  return absl::StrFormat("%d d %d h", whole / 86400, whole % 86400 / 3600);
}

std::string FormatClock(double seconds) {
  const int64_t whole = std::llround(std::max(seconds, 0.0));
  if (whole < 3600) return absl::StrFormat("%d:%02d", whole / 60, whole % 60);
  return absl::StrFormat("%d:%02d:%02d", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string FormatTime(double unix_seconds) {
  if (!std::isfinite(unix_seconds) || unix_seconds <= 0 || unix_seconds > kMaxSeconds) return kDash;
  return absl::FormatTime("%Y-%m-%d %H:%M", absl::FromUnixSeconds(std::llround(unix_seconds)),
                          absl::UTCTimeZone());
}

}  // namespace braid
