#include "cli/prompt_editor.h"

#include <histedit.h>

#include <clocale>
#include <cstdio>
#include <string_view>

namespace braid {
namespace {

// What terminals are asked for, and what they then put around a pasted text.
constexpr char kMarkPastes[] = "\x1b[?2004h";
constexpr char kMarkNoPastes[] = "\x1b[?2004l";
constexpr char kPasteBegins[] = "\x1b[200~";
constexpr std::wstring_view kPasteEnds = L"\x1b[201~";

bool line_given_up = false;  // callbacks of libedit have no other place

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
    // Terminals send line breaks as the Enter key does.
    text.push_back(character == L'\r' ? L'\n' : character);
  }
  if (text.ends_with(kPasteEnds)) text.resize(text.size() - kPasteEnds.size());
  return !text.empty() && el_winsertstr(editor, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
}

}  // namespace

struct PromptEditor::State {
  EditLine* editor = nullptr;
  History* history = nullptr;
};

PromptEditor::PromptEditor() : state_(std::make_unique<State>()) {
  std::setlocale(LC_CTYPE, "");  // which bytes make a character
  EditLine* const editor = state_->editor = el_init("braid", stdin, stderr, stderr);
  state_->history = history_init();
  HistEvent event;
  history(state_->history, &event, H_SETSIZE, 1000);
  history(state_->history, &event, H_SETUNIQUE, 1);
  el_set(editor, EL_PROMPT, &Prompt);
  el_set(editor, EL_EDITOR, "emacs");
  el_set(editor, EL_HIST, history, state_->history);
  el_set(editor, EL_SIGNAL, 1);
  // Ctrl-C comes as a key while a line is edited, and as a signal at other times.
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
  while (true) {
    line_given_up = false;
    std::fputs(kMarkPastes, stderr);
    int length = 0;
    const char* const typed = el_gets(state_->editor, &length);
    std::fputs(kMarkNoPastes, stderr);
    if (typed == nullptr || length <= 0) return std::nullopt;
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
