#include "proto/state_name.h"

namespace braid {

std::string StateName(v1::JobState state) {
  return std::string(v1::JobState_Name(state)).substr(sizeof("JOB_") - 1);
}

std::string StateName(v1::RunState state) {
  return std::string(v1::RunState_Name(state)).substr(sizeof("RUN_") - 1);
}

}  // namespace braid
