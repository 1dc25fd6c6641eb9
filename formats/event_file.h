// The container of TensorBoard event files: a sequence of checksummed records
// (the TFRecord framing), and the names by which such files are found.
//
//   u64 length | u32 masked CRC of these 8 bytes | data | u32 masked CRC of the data
//
// All little-endian. docs/formats/metrics.md.
#ifndef BRAID_FORMATS_EVENT_FILE_H_
#define BRAID_FORMATS_EVENT_FILE_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace braid {

// What every event file says of itself in its first event.
inline constexpr std::string_view kEventFileVersion = "brain.Event:2";

// CRC-32C rotated right by 15 bits plus 0xA282EAD8, so that checksums of data that
// holds checksums stay good ones.
uint32_t MaskedCrc32c(std::string_view data);

// One record with `data` in it.
std::string EventRecord(std::string_view data);

// "events.out.tfevents.1700000000.host.123.0". Readers take the files of a directory
// in the order of their names. Characters of `host` other than letters, digits and
// "-_." become '_'.
std::string EventFileName(int64_t unix_seconds, std::string_view host, int64_t process);

// Seconds for the name of a file that is to follow all that are in the directory:
// `now`, or later if another file claims to be as new, as after a clock was set back.
// A directory that does not exist holds none.
int64_t SecondsBehindOthers(const std::filesystem::path& directory, int64_t now);

}  // namespace braid

#endif  // BRAID_FORMATS_EVENT_FILE_H_
