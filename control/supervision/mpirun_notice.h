// What mpirun says about processes that ended on it, in trainer.log.
#ifndef BRAID_CONTROL_SUPERVISION_MPIRUN_NOTICE_H_
#define BRAID_CONTROL_SUPERVISION_MPIRUN_NOTICE_H_

#include <string>
#include <vector>

namespace braid {

// A rank that was ended by a signal, or a host whose daemon or ranks are gone.
struct MpirunNotice {
  int rank = -1;  // -1: all of the host
  std::string node;
  int signal = 0;
};

// In the order of the text, which Open MPI 4 and 5 word alike.
std::vector<MpirunNotice> ParseMpirunNotices(const std::string& log);

// "rank 1 on nd2 was ended by signal 9"
std::string TextOf(const MpirunNotice& notice);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_MPIRUN_NOTICE_H_
