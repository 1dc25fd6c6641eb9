#include "retrieval/faiss_call.h"

#include <dlfcn.h>
#include <omp.h>

#include "retrieval/parallel_for.h"

namespace braid {

void UseRetrievalThreads() {
  // The BLAS behind libblas.so.3 is the system's choice; only OpenBLAS has this.
  using SetThreads = void (*)(int);
  static const auto set_blas_threads =
      reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  omp_set_num_threads(RetrievalThreads());
  if (set_blas_threads != nullptr) set_blas_threads(RetrievalThreads());
}

}  // namespace braid
