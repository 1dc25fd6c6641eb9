// TensorBoard event files: a sequence of checksummed records (the TFRecord framing), and the file
// names by which TensorBoard finds them.
//
//   u64 length | u32 masked CRC of these 8 bytes | data | u32 masked CRC of the data
//
// All integers are little-endian. See docs/formats/metrics.md.
#ifndef BRAID_FORMATS_EVENT_FILE_H_
#define BRAID_FORMATS_EVENT_FILE_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace braid {

// The version that the first event of every event file contains.
inline constexpr std::string_view kEventFileVersion = "brain.Event:2";

// Returns the CRC-32C rotated right by 15 bits plus 0xA282EAD8. The mask keeps checksums of data
// that contains checksums effective.
uint32_t MaskedCrc32c(std::string_view data);

// Returns one record that contains `data`.
std::string EventRecord(std::string_view data);

// Returns a file name such as "events.out.tfevents.1700000000.host.123.0". Readers take the files
// of a directory in the order of their names. Characters of `host` other than letters, digits and
// "-_." become '_'.
std::string EventFileName(int64_t unix_seconds, std::string_view host, int64_t process);

// Returns the seconds for the name of a file that must sort after all event files in the directory:
// `now`, or later if another file claims to be as new, for example after a clock was set back. A
// directory that does not exist counts as empty.
int64_t SecondsAfterOthers(const std::filesystem::path& directory, int64_t now);

}  // namespace braid

#endif  // BRAID_FORMATS_EVENT_FILE_H_
