// Names of the states of jobs and runs for people: in tables, messages and, in lower case, labels.
#ifndef BRAID_PROTO_STATE_NAME_H_
#define BRAID_PROTO_STATE_NAME_H_

#include <string>

#include "braid/v1/job.pb.h"
#include "braid/v1/training.pb.h"

namespace braid {

// Return the name of a state, such as "RUNNING".
std::string StateName(v1::JobState state);
std::string StateName(v1::RunState state);

}  // namespace braid

#endif  // BRAID_PROTO_STATE_NAME_H_
