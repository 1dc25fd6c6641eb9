// Lines typed at a terminal, with editing, and a history that ends with the object.
#ifndef BRAID_CLIENT_TERMINAL_PROMPT_EDITOR_H_
#define BRAID_CLIENT_TERMINAL_PROMPT_EDITOR_H_

#include <memory>
#include <optional>
#include <string>

namespace braid {

// Over standard input and standard error. A text pasted into a terminal that marks pastes
// ("bracketed paste") is one line, its line breaks included. One at a time in a process.
class PromptEditor {
 public:
  PromptEditor();
  ~PromptEditor();
  PromptEditor(const PromptEditor&) = delete;
  PromptEditor& operator=(const PromptEditor&) = delete;

  // Without its newline; nothing at the end of input (Ctrl-D on an empty line). Ctrl-C gives up the
  // line and begins another.
  std::optional<std::string> Read();

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_PROMPT_EDITOR_H_
