// The messages of mpirun about ranks and hosts that it lost, from trainer.log.
#ifndef BRAID_CONTROL_SUPERVISION_MPIRUN_NOTICE_H_
#define BRAID_CONTROL_SUPERVISION_MPIRUN_NOTICE_H_

#include <string>
#include <vector>

namespace braid {

// A rank that was ended by a signal, or a host to which mpirun lost the connection.
struct MpirunNotice {
  int rank = -1;  // -1: all ranks of the host
  std::string node;
  int signal = 0;
};

// Returns the notices in `log` in order. Open MPI 4 and 5 use the same wording.
std::vector<MpirunNotice> ParseMpirunNotices(const std::string& log);

// Returns a text such as "rank 1 on nd2 was ended by signal 9".
std::string TextOf(const MpirunNotice& notice);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_MPIRUN_NOTICE_H_
