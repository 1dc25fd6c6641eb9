#include "client/terminal/prompt_editor.h"

#include <histedit.h>
#include <langinfo.h>
#include <signal.h>
#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <string_view>

namespace braid {
namespace {

// Escape sequences that turn bracketed paste on and off, and that surround pasted text.
constexpr char kMarkPastes[] = "\x1b[?2004h";
constexpr char kMarkNoPastes[] = "\x1b[?2004l";
constexpr char kPasteBegins[] = "\x1b[200~";
constexpr std::wstring_view kPasteEnds = L"\x1b[201~";

bool line_given_up = false;  // global, since callbacks of libedit take no context

char* Prompt(EditLine* /*editor*/) {
  static char prompt[] = "> ";
  return prompt;
}

unsigned char GiveUpLine(EditLine* /*editor*/, int /*key*/) {
  line_given_up = true;
  return CC_NEWLINE;
}

unsigned char InsertPaste(EditLine* editor, int /*key*/) {
  std::wstring text;
  wchar_t character = 0;
  while (!text.ends_with(kPasteEnds) && el_wgetc(editor, &character) == 1) {
    // Terminals send line breaks as carriage returns.
    text.push_back(character == L'\r' ? L'\n' : character);
  }
  if (text.ends_with(kPasteEnds)) text.resize(text.size() - kPasteEnds.size());
  return !text.empty() && el_winsertstr(editor, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
}

// Restores the terminal and ends the program on SIGTERM while a line is edited. (libedit's own
// handler forwards the signal.)
class TidyEnd {
 public:
  TidyEnd() {
    struct sigaction action = {};
    action.sa_handler = [](int /*number*/) {
      [[maybe_unused]] const ssize_t n = write(STDERR_FILENO, kTidy, sizeof(kTidy) - 1);
      _exit(kInterruptedExitCode);
    };
    action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_NODEFER;
    sigaction(SIGTERM, &action, &before_);
  }
  ~TidyEnd() { sigaction(SIGTERM, &before_, nullptr); }

 private:
  static constexpr int kInterruptedExitCode = 130;  // as that of an interrupted command
  static constexpr char kTidy[] = "\x1b[?2004l\n";
  struct sigaction before_ = {};
};

}  // namespace

struct PromptEditor::State {
  EditLine* editor = nullptr;
  History* history = nullptr;
};

PromptEditor::PromptEditor() : state_(std::make_unique<State>()) {
  // Prompts are UTF-8 in every locale; this sets which bytes make up a character.
  std::setlocale(LC_CTYPE, "");
  if (std::string_view(nl_langinfo(CODESET)) != "UTF-8") std::setlocale(LC_CTYPE, "C.UTF-8");
  EditLine* const editor = state_->editor = el_init("braid", stdin, stderr, stderr);
  state_->history = history_init();
  HistEvent event;
  history(state_->history, &event, H_SETSIZE, 1000);
  history(state_->history, &event, H_SETUNIQUE, 1);
  el_set(editor, EL_PROMPT, &Prompt);
  el_set(editor, EL_EDITOR, "emacs");
  el_set(editor, EL_HIST, history, state_->history);
  el_set(editor, EL_SIGNAL, 1);
  // Ctrl-C is a key while a line is edited, and a signal at other times.
  el_set(editor, EL_SETTY, "-d", "-isig", nullptr);
  el_set(editor, EL_ADDFN, "give-up-line", "Give up the line", &GiveUpLine);
  el_set(editor, EL_BIND, "^C", "give-up-line", nullptr);
  el_set(editor, EL_ADDFN, "insert-paste", "Insert a pasted text", &InsertPaste);
  el_set(editor, EL_BIND, kPasteBegins, "insert-paste", nullptr);
}

PromptEditor::~PromptEditor() {
  history_end(state_->history);
  el_end(state_->editor);
}

std::optional<std::string> PromptEditor::Read() {
  const TidyEnd tidy;
  while (true) {
    line_given_up = false;
    std::fputs(kMarkPastes, stderr);
    int length = 0;
    const char* const typed = el_gets(state_->editor, &length);
    std::fputs(kMarkNoPastes, stderr);
    if (typed == nullptr || length <= 0) {
      std::fputs("\n", stderr);
      return std::nullopt;
    }
    if (line_given_up) {
      std::fputs("\n", stderr);
      continue;
    }
    std::string line(typed, static_cast<size_t>(length));
    if (line.back() == '\n') line.pop_back();
    HistEvent event;
    if (!line.empty()) history(state_->history, &event, H_ENTER, line.c_str());
    return line;
  }
}

}  // namespace braid
