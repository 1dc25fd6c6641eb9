#include <ATen/Parallel.h>
#include <malloc.h>

#include <algorithm>
#include <thread>

#include "base/blas_core.h"
#include "model/language_model.h"

#ifndef _OPENMP
#error "compile with OpenMP: without it, at::parallel_for is a serial loop"
#endif

namespace braid {
namespace {

// Keeps freed tensors in the process: by default glibc returns every large block to the kernel,
// which must clear its pages again at the next use.
void KeepFreedMemory() {
  mallopt(M_MMAP_MAX, 0);
  // mallopt takes an int, so the threshold has to stay below 2 GiB.
  mallopt(M_TRIM_THRESHOLD, 2000 << 20);
  mallopt(M_TOP_PAD, 64 << 20);
}

}  // namespace

void SetModelThreads(int num_threads) {
  if (num_threads < 1) {
    num_threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }
  at::set_num_threads(num_threads);
  SetBlasThreads(num_threads);
  KeepFreedMemory();
}

}  // namespace braid
