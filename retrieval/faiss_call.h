// Calls into FAISS: exceptions become status, and the threads of OpenMP and
// OpenBLAS are those of SetRetrievalThreads().
#ifndef BRAID_RETRIEVAL_FAISS_CALL_H_
#define BRAID_RETRIEVAL_FAISS_CALL_H_

#include <exception>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace braid {

// OpenMP keeps its number of threads for each calling thread, so this is needed
// before every call that computes.
void UseRetrievalThreads();

// Runs f(); what it throws becomes `code` with `what` in front, but out of
// memory is always RESOURCE_EXHAUSTED.
template <class Function>
absl::Status FaissCall(absl::StatusCode code, absl::string_view what, Function f) {
  try {
    UseRetrievalThreads();
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
