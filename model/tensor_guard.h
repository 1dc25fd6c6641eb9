// The border between the tensor library, which throws, and absl::Status.
// Private to trainer/model.
#ifndef BRAID_MODEL_TENSOR_GUARD_H_
#define BRAID_MODEL_TENSOR_GUARD_H_

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <exception>
#include <new>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace braid {

// Runs `body` and returns its value. Failed allocations become
// ResourceExhausted, everything else the library throws Internal.
template <class T, class Body>
absl::StatusOr<T> CatchTensorErrors(Body body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory in a tensor computation");
  } catch (const c10::Error& error) {
    const absl::string_view what = error.what_without_backtrace();
    // The library has no type for it; these are the CPU's and CUDA's wordings.
    if (what.find("allocate memory") != what.npos || what.find("out of memory") != what.npos) {
      return absl::ResourceExhaustedError(absl::StrCat("out of memory: ", what));
    }
    return absl::InternalError(absl::StrCat("tensor computation: ", what));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("tensor computation: ", error.what()));
  }
}

// The same with autograd off.
template <class T, class Body>
absl::StatusOr<T> WithoutGradients(Body body) {
  return CatchTensorErrors<T>([&] {
    const at::NoGradGuard guard;
    return body();
  });
}

}  // namespace braid

#endif  // BRAID_MODEL_TENSOR_GUARD_H_
