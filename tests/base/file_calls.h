// Interception of the system calls with which this test program changes files, to observe them or
// make them fail. The program defines those functions itself, before the C library's, so calls of
// all its libraries arrive here: pwrite, pwrite64, write, posix_fallocate, ftruncate, fsync,
// fdatasync, rename, mkdir, unlink and unlinkat.
#ifndef BRAID_TESTS_BASE_FILE_CALLS_H_
#define BRAID_TESTS_BASE_FILE_CALLS_H_

#include <functional>
#include <string>

namespace braid {

struct FileCall {
  const char* name;  // "pwrite", ...
  std::string path;  // for a rename: the new path
};

// Sets a function that is called before each call, from any thread, and returns an errno to fail
// with or 0. Its own calls are not intercepted. Must be set while no other thread of the program is
// running.
void WatchFileCalls(std::function<int(const FileCall&)> watch);

// Makes flushing do nothing from now on, for tests that end processes, not machines.
void SkipFlushes();

// Makes the next write of this thread, which is expected to be the last of the process, write half
// of its bytes.
void TearNextWrite(std::function<void()> then);

}  // namespace braid

#endif  // BRAID_TESTS_BASE_FILE_CALLS_H_
