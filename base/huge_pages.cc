#include "base/huge_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace braid {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

size_t RoundedUp(size_t bytes) {
  return (std::max<size_t>(bytes, 1) + kHugePage - 1) / kHugePage * kHugePage;
}

}  // namespace

void* AllocateHuge(size_t bytes) {
  const size_t rounded = RoundedUp(bytes);
  void* memory = std::aligned_alloc(kHugePage, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  madvise(memory, rounded, MADV_HUGEPAGE);  // best effort
  return memory;
}

void* AllocateHugeZeros(size_t bytes) {
  const size_t rounded = RoundedUp(bytes), mapped = rounded + kHugePage;
  void* const block =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) throw std::bad_alloc();
  // Keeps the aligned part.
  char* const begin = static_cast<char*>(block);
  const size_t skipped = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  if (skipped > 0) munmap(begin, skipped);
  munmap(begin + skipped + rounded, kHugePage - skipped);
  madvise(begin + skipped, rounded, MADV_HUGEPAGE);  // best effort
  return begin + skipped;
}

void FreeHugeZeros(void* memory, size_t bytes) { munmap(memory, RoundedUp(bytes)); }

}  // namespace braid
