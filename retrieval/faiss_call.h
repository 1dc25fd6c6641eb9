// Calls into FAISS: exceptions become status, and the threads of OpenMP and OpenBLAS are set.
#ifndef BRAID_RETRIEVAL_FAISS_CALL_H_
#define BRAID_RETRIEVAL_FAISS_CALL_H_

#include <exception>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace braid {

// Sets the threads of BLAS, and those of OpenMP for calls from this thread. OpenMP keeps the number
// per thread, so this is needed before every call that computes.
void SetFaissThreads(int num_threads);

// Runs f() with `num_threads`. Exceptions become errors with `code` and the prefix `what`, except
// that running out of memory is always RESOURCE_EXHAUSTED.
template <class Function>
absl::Status FaissCall(absl::StatusCode code, absl::string_view what, int num_threads, Function f) {
  try {
    SetFaissThreads(num_threads);
    f();
    return absl::OkStatus();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(what, ": out of memory"));
  } catch (const std::exception& error) {
    return absl::Status(code, absl::StrCat(what, ": ", error.what()));
  }
}

}  // namespace braid

#endif  // BRAID_RETRIEVAL_FAISS_CALL_H_
