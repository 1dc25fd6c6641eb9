// Numbers, durations and times as people read them, on pages and on terminals.
//
// The functions for pages return an en dash for a value that is not finite.
#ifndef BRAID_BASE_NUMBER_TEXT_H_
#define BRAID_BASE_NUMBER_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace braid {

// Returns `digits` digits after the point; "5.185e+21" from 1e12 on.
std::string FormatFixed(double value, int digits);
// Returns the same with a sign: "+0.110".
std::string FormatSigned(double value, int digits);

// Returns "12.3 %" for .123, with a no-break space.
std::string FormatPercent(double share);
// Returns "95 %" for .95 and "2.5 %" for .025: at most four significant digits, and a no-break
// space.
std::string FormatShortPercent(double share);

// Returns three significant digits and a suffix, for pages: "950", "12.4k", "1.05M", "29.5B".
std::string FormatCount(double value);
// Returns a text for terminals, where a value that changes keeps its number of digits: "950",
// "12.3k", "4.6M", "1.2G".
std::string CompactCount(double value);
// Returns a text such as "1,234,567".
std::string WithThousands(int64_t value);
// Returns a number below 1000 and its unit: "0.50 KiB", "12.3 MiB", "950 GiB".
std::string FormatBytes(double bytes);
// Returns a text such as "0 files", "1 file" or "1,234 files".
std::string Counted(int64_t count, const char* singular);
// Returns the names or, if there are more than `most`, the first of them and the number of the
// others: "a, b and 4 more".
std::string SomeOf(const std::vector<std::string>& names, size_t most);

// Returns a text such as "48 s", "12 min 5 s", "3 h 20 min" or "2 d 4 h"; a dash also for a
// negative value.
std::string FormatDuration(double seconds);
// Returns a text for progress, such as "1:05" or "2:03:04"; "0:00" for a negative value.
std::string FormatClock(double seconds);
// Returns a text such as "2026-11-21 00:09", in UTC; a dash also for a time that is not positive.
std::string FormatTime(double unix_seconds);

}  // namespace braid

#endif  // BRAID_BASE_NUMBER_TEXT_H_
