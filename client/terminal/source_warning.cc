#include "client/terminal/source_warning.h"

#include "client/terminal/terminal_text.h"
#include "runs/model_path.h"

namespace braid {

bool SourceWarning::IsNews(const v1::ModelSource& source) const {
  const std::string note = FallbackNote(source);
  return !note.empty() && !shown_.contains(note);
}

void SourceWarning::Show(const v1::ModelSource& source) {
  if (!IsNews(source)) return;
  const std::string note = FallbackNote(source);
  notes_ << "braid: warning: " << PrintableText(note) << std::endl;
  shown_.insert(note);
}

}  // namespace braid
