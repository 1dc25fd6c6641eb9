// A library for LD_PRELOAD that makes a server deaf: connections to its port stay in the backlog,
// since accept4() reports none. So that a test needs seconds, not minutes, until the server
// notices, waits for a condition variable last a twentieth of their time; afterwards the monotonic
// clock of the waiting thread shows the whole time.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kSpeed = 20;
// Slows the loop of a server to which poll() reports a connection again and again.
constexpr useconds_t kPauseMicroseconds = 10'000;

thread_local int64_t skipped_ns = 0;

int64_t Nanoseconds(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }

timespec TimeOf(int64_t nanoseconds) { return {nanoseconds / kSecond, nanoseconds % kSecond}; }

int64_t RealNow() {
  timespec now = {};
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  return Nanoseconds(now);
}

}  // namespace

extern "C" {

int accept4(int, sockaddr*, socklen_t*, int) {
  usleep(kPauseMicroseconds);
  errno = EAGAIN;
  return -1;
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int result = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (result == 0 && clock == CLOCK_MONOTONIC) *time = TimeOf(Nanoseconds(*time) + skipped_ns);
  return result;
}

// Called by std::condition_variable for deadlines of the monotonic clock.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* deadline) {
  using Wait = int(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);
  static Wait* const wait = reinterpret_cast<Wait*>(dlsym(RTLD_NEXT, "pthread_cond_clockwait"));
  if (clock != CLOCK_MONOTONIC) return wait(condition, mutex, clock, deadline);
  const int64_t now = RealNow();
  const int64_t left = Nanoseconds(*deadline) - skipped_ns - now;
  const timespec sooner = TimeOf(now + left / kSpeed);
  const int result = wait(condition, mutex, clock, &sooner);
  if (result == ETIMEDOUT && left > 0) skipped_ns += left - left / kSpeed;
  return result;
}

}  // extern "C"
