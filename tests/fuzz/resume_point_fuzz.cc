// The files of an interrupted stage.
#include "base/check.h"
#include "pipeline/store/resume_point.h"
#include "tests/fuzz/fuzz_target.h"

namespace braid {

std::vector<std::string> FUZZ_SEEDS(resume_point)() {
  const FuzzDirectory directory;
  ResumeRecord record = {
      .stage = "embed", .key = "0123", .finished = {}, .scratch = {}, .point = {}};
  std::vector<std::string> seeds;
  for (int i = 0; i < 2; ++i) {
    BRAID_CHECK(record.Save(directory.path()).ok());
    seeds.push_back(directory.Get(kResumePointName));
    record.finished = {{"domains.npy", 12, 0xdeadbeef, 3}};
    record.point.position = 77;
    record.number = 3;
    record.point.state["position"] = {{"file", 1}, {"rejects", {{"empty", 2}}}};
  }
  return seeds;
}

}  // namespace braid

int FUZZ_INPUT(resume_point)(const uint8_t* data, size_t size) {
  using namespace braid;  // NOLINT
  static const FuzzDirectory directory;
  directory.Put(kResumePointName, AsText(data, size));
  const auto record = ResumeRecord::Load(directory.path());
  if (!record.ok()) return 0;
  BRAID_CHECK(record->Save(directory.path()).ok());
  BRAID_CHECK(directory.Get(kResumePointName) == AsText(data, size));
  return 0;
}
