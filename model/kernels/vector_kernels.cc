#include "model/kernels/vector_kernels.h"

namespace braid {

extern const VectorKernels vector_kernels_baseline;
#ifdef BRAID_VECTOR_X86
extern const VectorKernels vector_kernels_avx2;
extern const VectorKernels vector_kernels_avx512;
#endif

namespace {

struct Runnable {
  const VectorKernels* sets[3] = {};
  size_t count = 0;

  Runnable() {
#ifdef BRAID_VECTOR_X86
    // Every extension that the level is compiled with (CMakeLists.txt): an instruction of a missing
    // one would end the process.
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")) {
      sets[count++] = &vector_kernels_avx512;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
      sets[count++] = &vector_kernels_avx2;
    }
#endif
    sets[count++] = &vector_kernels_baseline;
  }
};

const Runnable& Sets() {
  static const Runnable sets;
  return sets;
}

}  // namespace

const VectorKernels& Vector() { return *Sets().sets[0]; }

const VectorKernels* const* AllVectorKernels(size_t* count) {
  *count = Sets().count;
  return Sets().sets;
}

}  // namespace braid
