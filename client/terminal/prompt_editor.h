// Reads lines from a terminal with editing and a history that lasts as long as the object.
#ifndef BRAID_CLIENT_TERMINAL_PROMPT_EDITOR_H_
#define BRAID_CLIENT_TERMINAL_PROMPT_EDITOR_H_

#include <memory>
#include <optional>
#include <string>

namespace braid {

// An editor on standard input and standard error. Text pasted into a terminal with bracketed paste
// is one line, including its line breaks. At most one object may exist per process.
class PromptEditor {
 public:
  PromptEditor();
  ~PromptEditor();
  PromptEditor(const PromptEditor&) = delete;
  PromptEditor& operator=(const PromptEditor&) = delete;

  // Reads a line and returns it without its newline, or nothing at the end of input (Ctrl-D on an
  // empty line). Ctrl-C discards the line and starts another.
  std::optional<std::string> Read();

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_PROMPT_EDITOR_H_
