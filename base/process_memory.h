// Memory use of this process, as Linux accounts for it.
#ifndef BRAID_BASE_PROCESS_MEMORY_H_
#define BRAID_BASE_PROCESS_MEMORY_H_

#include <cstdint>
#include <string_view>

namespace braid {

struct ProcessMemory {
  int64_t resident_bytes = 0;
  int64_t peak_resident_bytes = 0;  // maximum so far
};

// Reads /proc/self/status, whose unit is 1 KiB; zeros if it does not exist.
ProcessMemory ReadProcessMemory();

// Parses the text of such a file.
ProcessMemory ParseProcessMemory(std::string_view status);

}  // namespace braid

#endif  // BRAID_BASE_PROCESS_MEMORY_H_
