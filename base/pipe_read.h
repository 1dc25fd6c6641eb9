// Reading from pipes whose other ends are other programs.
#ifndef BRAID_BASE_PIPE_READ_H_
#define BRAID_BASE_PIPE_READ_H_

#include <string>

namespace braid {

// Reads once and appends what there is, at most 64 KiB, to `bytes`. Returns false at the end of the
// stream and after an error; true also when a signal arrived, or when the descriptor does not block
// and nothing is available.
bool ReadAvailable(int descriptor, std::string* bytes);

}  // namespace braid

#endif  // BRAID_BASE_PIPE_READ_H_
