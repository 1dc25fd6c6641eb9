// The OpenBLAS kernels that fit the processor, and threads that leave each other the cores.
//
// OpenBLAS selects its kernels (its "core") when it is loaded, from the processor's model number or
// from $OPENBLAS_CORETYPE. A release that does not know the model falls back to older vector units:
// 0.3.21 runs SSE3 kernels on recent Intel processors at a fifth of their speed. Cores also differ
// in the order of their additions, hence in the last bits of every product. Programs that compute
// therefore choose the core by what the processor can do.
#ifndef BRAID_BASE_BLAS_CORE_H_
#define BRAID_BASE_BLAS_CORE_H_

#include <optional>
#include <string>
#include <string_view>

namespace braid {

// Vector units of an x86 processor, as far as OpenBLAS kernels use them. Ordered: each includes
// the ones before it.
enum class VectorUnits {
  kSse,
  kAvx,
  kAvx2,    // with FMA
  kAvx512,  // F, BW, DQ and VL
};

// Returns what this processor and operating system support; kSse elsewhere than on x86-64.
VectorUnits ProcessorVectorUnits();

// Returns the name of the core in use, such as "SkylakeX"; "" if the BLAS is not OpenBLAS.
std::string BlasCoreName();

// Sets the number of threads of OpenBLAS; does nothing if the BLAS is not OpenBLAS.
void SetBlasThreads(int num_threads);

// Returns the core to ask for if `core` leaves vector units of the processor unused, else nullopt.
// Names that are unknown here belong to newer releases of OpenBLAS and count as well chosen.
std::optional<std::string> BetterBlasCore(std::string_view core, VectorUnits units);

// Executes this program again if variables must be in the environment before main:
//   OPENBLAS_CORETYPE        BetterBlasCore(), if there is one
//   OMP_WAIT_POLICY          passive
//   OPENBLAS_THREAD_TIMEOUT  20: wait actively for 2^20 cycles after a product, not 2^26 (30 ms)
// BLAS and OpenMP have separate threads: idle ones that wait actively take cores from those that
// work. Dense steps with two threads took 1.35 times as long.
// Variables that are already set stay as they are. Must be called first in main, before threads and
// MPI start. Returns if nothing is to be done; executes at most once.
void ReexecForBlas(char** argv);

}  // namespace braid

#endif  // BRAID_BASE_BLAS_CORE_H_
