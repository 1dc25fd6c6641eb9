#include "retrieval/faiss_call.h"

#include <omp.h>

#include "base/blas_core.h"

namespace braid {

void SetFaissThreads(int num_threads) {
  omp_set_num_threads(num_threads);
  SetBlasThreads(num_threads);
}

}  // namespace braid
