#include "client/terminal/model_name.h"

#include <algorithm>
#include <filesystem>

namespace braid {
namespace {

std::string ShortName(const std::string& model) {
  const std::filesystem::path path = model;
  const std::filesystem::path parent = path.parent_path();
  if (parent.filename() != "checkpoints") return path.filename().string();
  return (parent.parent_path().filename() / path.filename()).string();
}

}  // namespace

std::string ModelName(const std::string& model, const std::set<std::string>& all) {
  const std::string name = ShortName(model);
  const auto same = [&](const std::string& other) {
    return other != model && ShortName(other) == name;
  };
  return std::ranges::any_of(all, same) ? model : name;
}

}  // namespace braid
