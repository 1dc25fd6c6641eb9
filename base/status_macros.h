// Early return for absl::Status and absl::StatusOr.
//
//   ASSIGN_OR_RETURN(std::string text, ReadFile(path));
//   RETURN_IF_ERROR(Validate(text));
#ifndef BRAID_BASE_STATUS_MACROS_H_
#define BRAID_BASE_STATUS_MACROS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define RETURN_IF_ERROR(expression)                                                           \
  do {                                                                                        \
    if (absl::Status braid_status_ = (expression); !braid_status_.ok()) return braid_status_; \
  } while (false)

#define BRAID_CONCAT_INNER(a, b) a##b
#define BRAID_CONCAT(a, b) BRAID_CONCAT_INNER(a, b)
#define ASSIGN_OR_RETURN(lhs, expression) \
  BRAID_ASSIGN_OR_RETURN(BRAID_CONCAT(braid_statusor_, __LINE__), lhs, expression)
#define BRAID_ASSIGN_OR_RETURN(tmp, lhs, expression) \
  auto tmp = (expression);                           \
  if (!tmp.ok()) return tmp.status();                \
  lhs = *std::move(tmp)

#endif  // BRAID_BASE_STATUS_MACROS_H_
