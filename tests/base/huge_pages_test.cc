#include "base/huge_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace braid {
namespace huge_pages_test {

constexpr size_t kHugePage = size_t{2} << 20;

// Returns the number of pages that are in memory.
int64_t ResidentPages(void* memory, size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident(bytes / page);
  EXPECT_EQ(mincore(memory, bytes, resident.data()), 0);
  return std::ranges::count_if(resident, [](unsigned char r) { return (r & 1) != 0; });
}

TEST(HugePagesTest, ZerosTakeMemoryOnceTheyAreWritten) {
  for (const size_t bytes : {size_t{1}, kHugePage, 5 * kHugePage + 12}) {
    auto* const memory = static_cast<unsigned char*>(AllocateHugeZeros(bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % kHugePage, 0u);
    const size_t whole = bytes / kHugePage * kHugePage;
    EXPECT_EQ(ResidentPages(memory, whole), 0);
    EXPECT_TRUE(std::all_of(memory, memory + bytes, [](unsigned char b) { return b == 0; }));
    std::fill(memory, memory + bytes, 1);
    EXPECT_EQ(ResidentPages(memory, whole), static_cast<int64_t>(whole) / sysconf(_SC_PAGESIZE));
    FreeHugeZeros(memory, bytes);
    // The address is not mapped any more.
    unsigned char resident;
    EXPECT_NE(mincore(memory, 1, &resident), 0);
  }
}

}  // namespace huge_pages_test
}  // namespace braid
