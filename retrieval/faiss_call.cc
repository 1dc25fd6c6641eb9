#include "retrieval/faiss_call.h"

#include <dlfcn.h>
#include <omp.h>

namespace braid {

void SetFaissThreads(int num_threads) {
  // The BLAS behind libblas.so.3 is the system's choice; only OpenBLAS has this.
  using SetThreads = void (*)(int);
  static const auto set_blas_threads =
      reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  omp_set_num_threads(num_threads);
  if (set_blas_threads != nullptr) set_blas_threads(num_threads);
}

}  // namespace braid
