#include "base/blas_core.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace braid {
namespace {

constexpr char kGuardVariable[] = "BRAID_BLAS_CHOSEN";

// Returns the vector units that a core's matrix products use.
VectorUnits UnitsOfCore(std::string_view core) {
  constexpr std::array<std::string_view, 14> kSse = {
      "Katmai", "Coppermine", "Northwood", "Prescott", "Banias",  "Atom",   "Core2",
      "Penryn", "Dunnington", "Nehalem",   "Athlon",   "Opteron", "Bobcat", "Barcelona"};
  constexpr std::array<std::string_view, 4> kAvx = {"Sandybridge", "Bulldozer", "Piledriver",
                                                    "Steamroller"};
  constexpr std::array<std::string_view, 3> kAvx2 = {"Haswell", "Zen", "Excavator"};
  const auto is_one_of = [core](const auto& names) {
    return std::find(names.begin(), names.end(), core) != names.end();
  };
  // "Opteron_SSE3" and the like.
  if (is_one_of(kSse) || core.starts_with("Opteron")) return VectorUnits::kSse;
  if (is_one_of(kAvx)) return VectorUnits::kAvx;
  if (is_one_of(kAvx2)) return VectorUnits::kAvx2;
  return VectorUnits::kAvx512;
}

// Returns a function of OpenBLAS, or nullptr if the BLAS is not OpenBLAS: Debian lets the
// administrator choose the library behind libblas.so.3.
template <class Function>
Function FindInOpenBlas(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

VectorUnits ProcessorVectorUnits() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    return VectorUnits::kAvx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return VectorUnits::kAvx2;
  if (__builtin_cpu_supports("avx")) return VectorUnits::kAvx;
#endif
  return VectorUnits::kSse;
}

std::string BlasCoreName() {
  const auto name = FindInOpenBlas<char* (*)()>("openblas_get_corename");
  return name == nullptr ? "" : name();
}

void SetBlasThreads(int num_threads) {
  const auto set = FindInOpenBlas<void (*)(int)>("openblas_set_num_threads");
  if (set != nullptr) set(num_threads);
}

std::optional<std::string> BetterBlasCore(std::string_view core, VectorUnits units) {
  if (core.empty() || UnitsOfCore(core) >= units) return std::nullopt;
  switch (units) {
    case VectorUnits::kAvx512:
      return "SkylakeX";
    case VectorUnits::kAvx2:
      return "Haswell";
    case VectorUnits::kAvx:
      return "Sandybridge";
    case VectorUnits::kSse:
      break;
  }
  return std::nullopt;
}

void ReexecForBlas(char** argv) {
  if (std::getenv(kGuardVariable) != nullptr) {
    // Executed through /proc/self/exe, the process would be called "exe" in ps and top.
    prctl(PR_SET_NAME, program_invocation_short_name);
    return;
  }
  bool changed = false;
  const auto set_default = [&changed](const char* name, const std::string& value) {
    if (std::getenv(name) != nullptr) return;
    setenv(name, value.c_str(), 1);
    changed = true;
  };
  if (const auto better = BetterBlasCore(BlasCoreName(), ProcessorVectorUnits())) {
    set_default("OPENBLAS_CORETYPE", *better);
  }
  set_default("OMP_WAIT_POLICY", "passive");
  set_default("OPENBLAS_THREAD_TIMEOUT", "20");
  if (!changed) return;
  setenv(kGuardVariable, "1", 1);
  execv("/proc/self/exe", argv);
  // Without /proc the program continues with what it has, slower.
}

}  // namespace braid
