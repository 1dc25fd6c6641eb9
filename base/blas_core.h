// Selection of OpenBLAS kernels on processors that OpenBLAS does not know, and of a thread wait
// policy that leaves cores to other threads.
#ifndef BRAID_BASE_BLAS_CORE_H_
#define BRAID_BASE_BLAS_CORE_H_

#include <optional>
#include <string>
#include <string_view>

namespace braid {

// Vector instruction sets of a processor, as far as BLAS kernels depend on them.
struct VectorUnits {
  bool avx2 = false;
  bool avx512 = false;  // f, bw, dq and vl
};

// Returns the OPENBLAS_CORETYPE to set if OpenBLAS chose `core` on a processor with these vector
// units, or nullopt if it chose well. "Prescott", its choice for unknown Intel models, uses SSE3
// kernels at a fifth of the speed.
std::optional<std::string> BetterBlasCore(std::string_view core, VectorUnits units);

// Returns the name of the kernels in use, such as "SkylakeX"; "" if the BLAS is not OpenBLAS.
std::string BlasCoreName();

// Executes this program again with environment variables that libraries read before main:
//
//   OPENBLAS_CORETYPE  kernels that fit the processor, if OpenBLAS would choose others
//   OMP_WAIT_POLICY    passive: idle threads of BLAS and OpenMP sleep instead of spinning, which
//   would
//                      take the cores from threads that work
//
// Must be called first in main, before threads and MPI. Values set by the user are kept. Executes
// the program at most once; returns if nothing has to be changed.
void ReexecForBlas(char** argv);

}  // namespace braid

#endif  // BRAID_BASE_BLAS_CORE_H_
