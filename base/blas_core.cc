#include "base/blas_core.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>

namespace braid {
namespace {

constexpr char kCoreVariable[] = "OPENBLAS_CORETYPE";
constexpr char kWaitVariable[] = "OMP_WAIT_POLICY";
constexpr char kGuardVariable[] = "BRAID_BLAS_CHOSEN";

VectorUnits ThisProcessor() {
#if defined(__x86_64__)
  return {.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"),
          .avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")};
#else
  return {};
#endif
}

}  // namespace

std::string BlasCoreName() {
  using Name = char* (*)();
  const auto name = reinterpret_cast<Name>(dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  return name == nullptr ? "" : name();
}

std::optional<std::string> BetterBlasCore(std::string_view core, VectorUnits units) {
  if (core != "Prescott" || !units.avx2) return std::nullopt;
  return units.avx512 ? "SkylakeX" : "Haswell";
}

void ReexecForBlas(char** argv) {
  if (std::getenv(kGuardVariable) != nullptr) return;
  const std::optional<std::string> better = BetterBlasCore(BlasCoreName(), ThisProcessor());
  const bool core = better.has_value() && std::getenv(kCoreVariable) == nullptr;
  const bool policy = std::getenv(kWaitVariable) == nullptr;
  if (!core && !policy) return;
  if (core) setenv(kCoreVariable, better->c_str(), 1);
  if (policy) setenv(kWaitVariable, "passive", 1);
  setenv(kGuardVariable, "1", 1);
  execv("/proc/self/exe", argv);
  // Without /proc the program continues with the slower kernels.
}

}  // namespace braid
