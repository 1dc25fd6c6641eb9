// Detects that a model on disk has changed since it was loaded, at the cost of a directory listing.
#ifndef BRAID_CONTROL_MODEL_VERSION_H_
#define BRAID_CONTROL_MODEL_VERSION_H_

#include <filesystem>
#include <string>

namespace braid {

// Takes a reference as FindModel does. Returns the name of the newest checkpoint of a run
// directory, valid or not, or the modification time of the manifest of a checkpoint directory.
// Empty when there is none.
std::string ModelVersion(const std::filesystem::path& reference);

}  // namespace braid

#endif  // BRAID_CONTROL_MODEL_VERSION_H_
