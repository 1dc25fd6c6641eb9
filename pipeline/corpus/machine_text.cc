#include "pipeline/corpus/machine_text.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/utf8.h"
#include "pipeline/corpus/manual_page_text.h"
#include "pipeline/corpus/text_source.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

// Larger files are data rather than text.
constexpr int64_t kMaxFileBytes = int64_t{16} << 20;

bool IsOneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

std::string NameWithoutGz(const fs::path& path) {
  return path.extension() == ".gz" ? path.stem().string() : path.filename().string();
}

bool HasExtension(const fs::path& path, std::initializer_list<std::string_view> extensions) {
  return IsOneOf(fs::path(NameWithoutGz(path)).extension().string(), extensions);
}

bool IsHeader(const fs::path& path) { return HasExtension(path, {".h", ".hh", ".hpp", ".hxx"}); }
bool IsPython(const fs::path& path) { return HasExtension(path, {".py"}); }
bool IsPerl(const fs::path& path) { return HasExtension(path, {".pm"}); }
bool IsPod(const fs::path& path) { return HasExtension(path, {".pod"}); }
bool IsCmake(const fs::path& path) { return HasExtension(path, {".cmake"}); }
bool IsGzip(const fs::path& path) { return path.extension() == ".gz"; }
bool IsPlain(const fs::path& path) {
  return !path.has_extension() || IsOneOf(path.extension().string(), {".txt"});
}
bool IsChangelog(const fs::path& path) { return NameWithoutGz(path).starts_with("changelog"); }
bool IsCopyright(const fs::path& path) { return path.filename() == "copyright"; }
bool IsLicence(const fs::path& path) { return path.extension() != ".gz"; }
bool IsAny(const fs::path&) { return true; }

bool IsDocumentation(const fs::path& path) {
  const std::string name = NameWithoutGz(path);
  if (IsChangelog(path) || IsCopyright(path)) return false;
  return HasExtension(path, {".txt", ".md", ".rst"}) || name.starts_with("README") ||
         name.starts_with("NEWS") || name.starts_with("FAQ") || name.starts_with("TODO");
}

// Files below `folder`, whose last parts may end in "*", that `accepts` takes.
struct Rule {
  std::string_view domain;
  std::string_view folder;
  std::function<bool(const fs::path&)> accepts;
  MachineTextForm form = MachineTextForm::kPlain;
};

const std::vector<Rule>& Rules() {
  using enum MachineTextForm;
  static const auto* rules = new std::vector<Rule>{
      {"c_headers", "usr/include", IsHeader, kHeader},
      {"c_headers", "usr/lib/gcc", IsHeader, kHeader},
      {"changelogs", "usr/share/doc", IsChangelog, kPlain},
      {"cmake", "usr/lib/*/cmake", IsCmake, kPlain},
      {"cmake", "usr/share/cmake*", IsCmake, kPlain},
      {"documentation", "usr/share/cmake*/Help", IsDocumentation, kPlain},
      {"documentation", "usr/share/doc", IsDocumentation, kPlain},
      {"licences", "usr/share/common-licenses", IsLicence, kPlain},
      {"licences", "usr/share/doc", IsCopyright, kPlain},
      {"manual_pages", "usr/share/man/man*", IsGzip, kManualPage},
      {"package_descriptions", "var/lib/dpkg/status", IsAny, kPackageStatus},
      {"perl", "usr/lib/*/perl*", IsPerl, kPlain},
      {"perl", "usr/share/perl*", IsPerl, kPlain},
      {"perl_docs", "usr/lib/*/perl*", IsPod, kPlain},
      {"perl_docs", "usr/share/perl*", IsPod, kPlain},
      {"python", "usr/lib/python3*", IsPython, kPlain},
      {"python", "usr/share/python3", IsPython, kPlain},
      {"shell", "usr/share/bash-completion", IsPlain, kPlain},
  };
  return *rules;
}

bool Matches(std::string_view name, std::string_view pattern) {
  if (!pattern.ends_with("*")) return name == pattern;
  return name.starts_with(pattern.substr(0, pattern.size() - 1));
}

// Paths below `base` whose parts match those of `pattern`.
std::vector<fs::path> Expand(const fs::path& base, const fs::path& pattern) {
  std::vector<fs::path> paths = {base};
  for (const fs::path& part : pattern) {
    std::vector<fs::path> next;
    for (const fs::path& path : paths) {
      std::error_code error;
      for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
        if (Matches(it->path().filename().string(), part.string())) next.push_back(it->path());
      }
    }
    paths = std::move(next);
  }
  return paths;
}

void AddFiles(const fs::path& root, const fs::path& start, const Rule& rule,
              std::vector<MachineTextFile>* files) {
  std::error_code error;
  const auto add = [&](const fs::directory_entry& entry) {
    std::error_code ignored;
    if (entry.is_symlink(ignored) || !entry.is_regular_file(ignored)) return;
    if (!rule.accepts(entry.path())) return;
    files->push_back(
        {entry.path().lexically_relative(root).string(), std::string(rule.domain), rule.form});
  };
  if (!fs::is_directory(start, error)) return add(fs::directory_entry(start, error));
  const auto options = fs::directory_options::skip_permission_denied;
  fs::recursive_directory_iterator it(start, options, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) add(*it);
}

// C++ headers usually have no extension of their own.
bool IsCpp(std::string_view text) {
  return text.find("\nnamespace ") != std::string_view::npos ||
         text.find("template <") != std::string_view::npos ||
         text.find("template<") != std::string_view::npos ||
         text.find("\nclass ") != std::string_view::npos;
}

void CutAtLineEnd(size_t max_bytes, std::string* text) {
  if (text->size() <= max_bytes) return;
  const size_t newline = text->rfind('\n', max_bytes - 1);
  text->resize(newline == std::string::npos ? 0 : newline + 1);
}

// "Package: x\n...\nDescription: short\n long\n .\n long\n\n" -> "x - short\nlong\n\nlong\n"
std::string PackageDescription(std::string_view stanza) {
  std::string name;
  std::string description;
  bool inside = false;
  while (!stanza.empty()) {
    const size_t newline = std::min(stanza.find('\n'), stanza.size());
    std::string_view line = stanza.substr(0, newline);
    stanza.remove_prefix(std::min(newline + 1, stanza.size()));
    if (line.starts_with("Package: ")) name = line.substr(9);
    if (inside && line.starts_with(" ")) {
      line.remove_prefix(1);
      description += (line == "." ? "" : std::string(line)) + "\n";
      continue;
    }
    inside = line.starts_with("Description: ");
    if (inside) description = std::string(line.substr(13)) + "\n";
  }
  return description.empty() ? "" : name + " - " + description;
}

std::vector<std::string> PackageDescriptions(std::string_view status) {
  std::vector<std::string> descriptions;
  while (!status.empty()) {
    const size_t end = std::min(status.find("\n\n"), status.size());
    descriptions.push_back(PackageDescription(status.substr(0, end)));
    status.remove_prefix(std::min(end + 2, status.size()));
  }
  return descriptions;
}

}  // namespace

const std::vector<MachineTextDomain>& MachineTextDomains() {
  static const auto* domains = new std::vector<MachineTextDomain>{
      {"c_headers", "libc6-dev, linux-libc-dev"},
      {"changelogs", "any, where /usr/share/doc is installed"},
      {"cmake", "cmake-data"},
      {"cpp_headers", "libstdc++-12-dev, libtorch-dev"},
      {"documentation", "any, where /usr/share/doc is installed"},
      {"licences", "base-files"},
      {"manual_pages", "manpages-dev, where /usr/share/man is installed"},
      {"package_descriptions", "dpkg"},
      {"perl", "perl-modules-5.36"},
      {"perl_docs", "perl-doc"},
      {"python", "libpython3-stdlib, python3-numpy"},
      {"shell", "bash-completion"},
  };
  return *domains;
}

std::vector<MachineTextFile> FindMachineText(const fs::path& root) {
  std::vector<MachineTextFile> files;
  for (const Rule& rule : Rules()) {
    for (const fs::path& start : Expand(root, rule.folder)) AddFiles(root, start, rule, &files);
  }
  const auto order = [](const MachineTextFile& file) { return std::tie(file.path, file.domain); };
  std::ranges::sort(files, {}, order);
  // clang 14 does not compile std::ranges::unique.
  const auto same = [](const MachineTextFile& a, const MachineTextFile& b) {
    return a.path == b.path;
  };
  files.erase(std::unique(files.begin(), files.end(), same), files.end());
  return files;
}

MachineText ReadMachineText(const fs::path& root, const MachineTextFile& file, size_t max_bytes) {
  MachineText result = {.domain = file.domain, .texts = {}};
  auto text = ReadText(root / file.path, kMaxFileBytes);
  if (!text.ok() || !text->has_value()) return result;
  const std::string_view bytes = **text;
  if (!IsValidUtf8(bytes) || bytes.find('\0') != bytes.npos) return result;
  if (file.form == MachineTextForm::kHeader && IsCpp(bytes)) result.domain = "cpp_headers";
  if (file.form == MachineTextForm::kPackageStatus) {
    result.texts = PackageDescriptions(bytes);
  } else if (file.form == MachineTextForm::kManualPage) {
    result.texts.push_back(ManualPageText(bytes));
  } else {
    result.texts.push_back(std::move(**text));
  }
  for (std::string& one : result.texts) CutAtLineEnd(max_bytes, &one);
  return result;
}

}  // namespace braid
