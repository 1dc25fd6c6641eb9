// The system calls by which this test program changes files, seen and, if wanted,
// made to fail. The program defines those functions itself, before the C library's,
// so that calls of all its libraries arrive here: pwrite, write, posix_fallocate,
// ftruncate, fsync, rename, mkdir, unlink and unlinkat.
#ifndef BRAID_TESTS_BASE_FILE_CALLS_H_
#define BRAID_TESTS_BASE_FILE_CALLS_H_

#include <functional>
#include <string>

namespace braid {

struct FileCall {
  const char* name;  // "pwrite", ...
  std::string path;  // of a rename: the new one
};

// Called before each call, from any thread, with an errno to fail with or 0. Its own calls
// are not seen. Set while no other thread of the program is at work.
void WatchFileCalls(std::function<int(const FileCall&)> watch);

// Flushing does nothing from now on: for tests that end processes, not machines.
void SkipFlushes();

// Writes do half of what they are asked, once: the next call of this thread, which is
// expected to be the last of the process.
void TearNextWrite(std::function<void()> then);

}  // namespace braid

#endif  // BRAID_TESTS_BASE_FILE_CALLS_H_
