// Names of models in tables.
#ifndef BRAID_CLIENT_TERMINAL_MODEL_NAME_H_
#define BRAID_CLIENT_TERMINAL_MODEL_NAME_H_

#include <set>
#include <string>

namespace braid {

// Returns the id of a run, "run/checkpoint" for a checkpoint of a run, or the last part of another
// path; the whole path if two of the models `all` would otherwise have the same name.
std::string ModelName(const std::string& model, const std::set<std::string>& all);

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_MODEL_NAME_H_
