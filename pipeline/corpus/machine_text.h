// Where a Debian machine keeps text, and how each kind of file is read.
#ifndef BRAID_PIPELINE_CORPUS_MACHINE_TEXT_H_
#define BRAID_PIPELINE_CORPUS_MACHINE_TEXT_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace braid {

enum class MachineTextForm { kPlain, kHeader, kManualPage, kPackageStatus };

struct MachineTextFile {
  // Relative to the root.
  std::string path;
  // "c_headers", "python", ...; a header with C++ in it is moved to "cpp_headers" when read.
  std::string domain;
  MachineTextForm form = MachineTextForm::kPlain;
};

// Every domain there can be, with the Debian packages that bring text for it.
struct MachineTextDomain {
  std::string name;
  std::string packages;
};
const std::vector<MachineTextDomain>& MachineTextDomains();

// Regular files below `root`, sorted by path; folders that do not exist are skipped.
std::vector<MachineTextFile> FindMachineText(const std::filesystem::path& root);

struct MachineText {
  std::string domain;
  std::vector<std::string> texts;
};

// Reads, decompresses and renders a file: one text, or one per package for the package status; none
// when the file is no UTF-8 text or cannot be read. At most `max_bytes` of a text, cut at a line
// end.
MachineText ReadMachineText(const std::filesystem::path& root, const MachineTextFile& file,
                            size_t max_bytes);

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_MACHINE_TEXT_H_
