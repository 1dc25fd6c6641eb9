// Converts exceptions of the tensor library to absl::Status. Private to model/.
#ifndef BRAID_MODEL_TENSOR_GUARD_H_
#define BRAID_MODEL_TENSOR_GUARD_H_

#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <exception>
#include <new>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace braid {

// Runs `body` and returns its value. Failed allocations become ResourceExhausted; every other
// exception of the library becomes Internal.
template <class T, class Body>
absl::StatusOr<T> CatchTensorErrors(Body body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory in a tensor computation");
  } catch (const c10::Error& error) {
    const absl::string_view what = error.what_without_backtrace();
    // The library has no exception type for failed allocations; these are the messages of its CPU
    // and CUDA allocators.
    if (what.find("allocate memory") != what.npos || what.find("out of memory") != what.npos) {
      return absl::ResourceExhaustedError(absl::StrCat("out of memory: ", what));
    }
    return absl::InternalError(absl::StrCat("tensor computation: ", what));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("tensor computation: ", error.what()));
  }
}

// Same as CatchTensorErrors, without autograd: tensors that `body` makes must not be used with it.
template <class T, class Body>
absl::StatusOr<T> WithoutGradients(Body body) {
  return CatchTensorErrors<T>([&] {
    const c10::InferenceMode guard;
    return body();
  });
}

}  // namespace braid

#endif  // BRAID_MODEL_TENSOR_GUARD_H_
