// Warns that a result was not computed with the newest checkpoint of its run.
#ifndef BRAID_CLIENT_TERMINAL_SOURCE_WARNING_H_
#define BRAID_CLIENT_TERMINAL_SOURCE_WARNING_H_

#include <ostream>
#include <set>
#include <string>

#include "braid/v1/model.pb.h"

namespace braid {

// Prints each warning once, however many results have it.
class SourceWarning {
 public:
  explicit SourceWarning(std::ostream& notes) : notes_(notes) {}

  // Prints FallbackNote(source) as a warning; nothing when the checkpoint is the newest.
  void Show(const v1::ModelSource& source);

  // Returns whether Show would print something.
  bool IsNews(const v1::ModelSource& source) const;

 private:
  std::ostream& notes_;
  std::set<std::string> shown_;
};

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_SOURCE_WARNING_H_
