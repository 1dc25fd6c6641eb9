#include "retrieval/faiss_call.h"

#include <dlfcn.h>
#include <omp.h>

namespace braid {

void SetFaissThreads(int num_threads) {
  // Debian lets the administrator choose the BLAS of libblas.so.3; only OpenBLAS has this function.
  using SetThreads = void (*)(int);
  static const auto set_blas_threads =
      reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  omp_set_num_threads(num_threads);
  if (set_blas_threads != nullptr) set_blas_threads(num_threads);
}

}  // namespace braid
