#include "control/supervision/mpirun_notice.h"

#include <regex>

#include "absl/strings/str_cat.h"

namespace braid {

std::vector<MpirunNotice> ParseMpirunNotices(const std::string& log) {
  // Open MPI 5 (PRRTE) breaks the line before "signal".
  static const std::regex kNotice(
      "process rank (\\d+) with PID \\d+ on node (\\S+) exited on\\s+signal (\\d+)"
      "|Remote daemon:\\s+\\[\\S+\\] on node (\\S+)");
  std::vector<MpirunNotice> notices;
  for (std::sregex_iterator match(log.begin(), log.end(), kNotice), end; match != end; ++match) {
    if ((*match)[4].matched) {
      notices.push_back({.rank = -1, .node = (*match)[4], .signal = 0});
    } else {
      // The log may contain any text: nine digits do not overflow, for which std::stoi would throw.
      notices.push_back({.rank = std::stoi((*match)[1].str().substr(0, 9)),
                         .node = (*match)[2],
                         .signal = std::stoi((*match)[3].str().substr(0, 9))});
    }
  }
  return notices;
}

std::string TextOf(const MpirunNotice& notice) {
  if (notice.rank < 0) return absl::StrCat("the connection to ", notice.node, " was lost");
  return absl::StrCat("rank ", notice.rank, " on ", notice.node, " was ended by signal ",
                      notice.signal);
}

}  // namespace braid
