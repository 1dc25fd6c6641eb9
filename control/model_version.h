// Whether a model on disk is still the one that was loaded, for the price of a directory listing.
#ifndef BRAID_CONTROL_MODEL_VERSION_H_
#define BRAID_CONTROL_MODEL_VERSION_H_

#include <filesystem>
#include <string>

namespace braid {

// Of a run directory, the name of its newest checkpoint, good or not; of a checkpoint directory,
// when its manifest was written. Empty when there is none.
std::string ModelVersion(const std::filesystem::path& model);

}  // namespace braid

#endif  // BRAID_CONTROL_MODEL_VERSION_H_
