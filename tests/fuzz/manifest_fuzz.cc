// manifest.json of stages, datasets and checkpoints.
#include "base/check.h"
#include "base/crc32c.h"
#include "formats/manifest.h"
#include "tests/fuzz/fuzz_target.h"

namespace braid {

std::vector<std::string> FUZZ_SEEDS(manifest)() {
  const FuzzDirectory directory;
  std::vector<std::string> seeds;
  Manifest manifest = {.kind = "embed", .key = "0123", .files = {}, .settings = {}};
  for (int i = 0; i < 3; ++i) {
    BRAID_CHECK(manifest.Save(directory.path()).ok());
    seeds.push_back(directory.Get(kManifestName));
    manifest.files.push_back({"below/" + std::to_string(i), i, 0xdeadbeef, 1});
    manifest.settings["k" + std::to_string(i)] = "\u00e9 \"quoted\"";
  }
  return seeds;
}

}  // namespace braid

int FUZZ_INPUT(manifest)(const uint8_t* data, size_t size) {
  using namespace braid;  // NOLINT
  static const FuzzDirectory directory;
  directory.Put(kManifestName, AsText(data, size));
  const auto manifest = Manifest::Load(directory.path());
  if (!manifest.ok()) return 0;
  // An accepted manifest is byte-identical when it is written again.
  BRAID_CHECK(manifest->Save(directory.path()).ok());
  BRAID_CHECK(directory.Get(kManifestName) == AsText(data, size));
  manifest->VerifyAll(directory.path()).IgnoreError();
  return 0;
}
