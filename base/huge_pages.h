// Memory in huge pages, for large arrays that are read in an unpredictable order.
#ifndef BRAID_BASE_HUGE_PAGES_H_
#define BRAID_BASE_HUGE_PAGES_H_

#include <cstddef>

namespace braid {

// Allocates memory that is aligned to huge pages and requests them from the kernel, which may still
// use small pages: with these, most accesses to many places of a large array also miss the
// translation lookaside buffer. The contents are undefined. Free it with std::free. Throws
// std::bad_alloc.
void* AllocateHuge(size_t bytes);

// As AllocateHuge, but the contents are zero, and a page takes memory only once it is written. Free
// it with FreeHugeZeros(memory, bytes).
void* AllocateHugeZeros(size_t bytes);
void FreeHugeZeros(void* memory, size_t bytes);

}  // namespace braid

#endif  // BRAID_BASE_HUGE_PAGES_H_
