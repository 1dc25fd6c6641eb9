// The right OpenBLAS kernels on processors that OpenBLAS does not know, and threads
// that leave each other the cores.
#ifndef BRAID_BASE_BLAS_CORE_H_
#define BRAID_BASE_BLAS_CORE_H_

#include <optional>
#include <string>
#include <string_view>

namespace braid {

// What the processor can do, as far as kernels ask.
struct VectorUnits {
  bool avx2 = false;
  bool avx512 = false;  // f, bw, dq and vl
};

// The OPENBLAS_CORETYPE to ask for, when OpenBLAS fell back to `core`
// ("Prescott", its answer for unknown Intel models: SSE3 kernels, a fifth of the
// speed) on a processor that has more. nullopt when it chose well.
std::optional<std::string> BetterBlasCore(std::string_view core, VectorUnits units);

// The kernels in use, such as "SkylakeX"; "" when the BLAS at hand is not
// OpenBLAS.
std::string BlasCoreName();

// Starts this program again with what has to be in the environment before main:
//   OPENBLAS_CORETYPE  a better one, when there is one
//   OMP_WAIT_POLICY    passive: BLAS and OpenMP have threads of their own, and idle
//                      ones that spin take the cores from those that work
// Call it first in main, before threads and MPI. A value that the user set is
// respected, and it happens at most once. Returns when there is nothing to do.
void ReexecForBlas(char** argv);

}  // namespace braid

#endif  // BRAID_BASE_BLAS_CORE_H_
