// Numbers, durations and times as people read them, on pages and on terminals.
//
// The functions for pages return an en dash for a value that is not finite.
#ifndef BRAID_BASE_NUMBER_TEXT_H_
#define BRAID_BASE_NUMBER_TEXT_H_

#include <cstdint>
#include <string>

namespace braid {

// Returns `digits` digits after the point.
std::string FormatFixed(double value, int digits);
// The same with a sign: "+0.110".
std::string FormatSigned(double value, int digits);

// "12.3 %" for .123, with a no-break space.
std::string FormatPercent(double share);
// "95 %" for .95 and "2.5 %" for .025: at most four significant digits, and a no-break space.
std::string FormatShortPercent(double share);

// For pages: three significant digits and a suffix: "950", "12.4k", "1.05M", "29.5B".
std::string FormatCount(double value);
// For terminals, where a value that changes keeps its number of digits: "950", "12.3k", "4.6M",
// "1.2G".
std::string CompactCount(double value);
// "1,234,567".
std::string WithThousands(int64_t value);

// "48 s", "12 min 5 s", "3 h 20 min", "2 d 4 h"; a dash also for a negative value.
std::string FormatDuration(double seconds);
// For progress: "1:05", "2:03:04"; "0:00" for a negative value.
std::string FormatClock(double seconds);
// "2026-11-21 00:09" in UTC; a dash also for a time that is not positive.
std::string FormatTime(double unix_seconds);

}  // namespace braid

#endif  // BRAID_BASE_NUMBER_TEXT_H_
