#include "client/terminal/progress_board.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/terminal/terminal_text.h"

namespace braid {
namespace {

constexpr int kLineWidth = 100;  // when the width of the terminal is unknown
constexpr int kLogWidth = 160;
constexpr int kNameColumns = 18;
constexpr auto kRedrawInterval = std::chrono::milliseconds(100);
constexpr auto kPlainInterval = std::chrono::seconds(10);
// A shorter activity prints only its final line to a log.
constexpr auto kFirstPlainLine = std::chrono::seconds(2);
// A rate measured over less time is not shown.
constexpr double kMinRateSeconds = 0.5;

double Seconds(ProgressBoard::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

std::string FormatProgress(const std::string& name, const Progress& progress,
                           double elapsed_seconds, int width) {
  double rate = progress.rate;
  if (rate < 0) rate = elapsed_seconds > kMinRateSeconds ? progress.done / elapsed_seconds : 0;
  const std::string head = PadColumns(name, kNameColumns) + " ";
  std::string count =
      absl::StrCat(CompactCount(progress.done),
                   progress.total > 0 ? absl::StrCat("/", CompactCount(progress.total)) : "", " ",
                   progress.unit);
  std::string bar;
  if (progress.total > 0) {
    const double fraction = static_cast<double>(progress.done) / progress.total;
    bar = Bar(fraction);
    count = absl::StrFormat(" %3.0f%% %s", 100 * fraction, count);
  }
  std::string line = head + bar + count;
  std::string figures;
  if (!progress.detail.empty()) absl::StrAppend(&figures, "  ", progress.detail);
  if (progress.rate < 0 && rate >= 0.5) absl::StrAppend(&figures, "  ", CompactCount(rate), "/s");
  double eta = progress.eta_seconds;
  if (eta < 0 && rate > 0 && progress.total > 0) eta = (progress.total - progress.done) / rate;
  const std::string left = eta >= 0 ? absl::StrCat("  ETA ", FormatClock(eta)) : "";
  // On a narrow terminal the bar is left out first, then the last figures, then the end of the
  // count; the remaining time always stays.
  const auto missing = [&] { return NumColumns(line + figures + left) - width; };
  if (missing() > 0) line = head + count;
  while (missing() > 0 && !figures.empty()) figures.resize(figures.rfind("  "));
  return ClipColumns(ClipColumns(line + figures, width - NumColumns(left)) + left, width);
}

ProgressBoard::ProgressBoard(std::ostream& out, bool terminal)
    : out_(out), terminal_(terminal), screen_(out, STDERR_FILENO) {}

ProgressBoard::~ProgressBoard() { Close(); }

void ProgressBoard::Update(const std::string& name, const Progress& progress) {
  Row& row = FindOrAdd(name);
  const Clock::time_point now = Clock::now();
  row.line = FormatProgress(name, progress, Seconds(now - row.started),
                            terminal_ ? TerminalWidth(STDERR_FILENO, kLineWidth) : kLogWidth);
  if (!terminal_) {
    if (now - row.printed < kPlainInterval) return;
    row.printed = now;
    out_ << row.line << std::endl;
  } else if (now - last_draw_ >= kRedrawInterval) {
    last_draw_ = now;
    Draw();
  }
}

void ProgressBoard::Note(const std::string& name, const std::string& message) {
  PrintLine(name, message);
  Draw();
}

void ProgressBoard::Finish(const std::string& name, const std::string& message) {
  std::erase_if(rows_, [&](const Row& row) { return row.name == name; });
  PrintLine(name, message);
  Draw();
}

void ProgressBoard::Close() {
  Draw();
  screen_.Keep();
  rows_.clear();
}

void ProgressBoard::PrintLine(const std::string& name, const std::string& message) {
  if (terminal_) screen_.Erase();
  const std::string line = absl::StrCat(PadColumns(name, kNameColumns), " ", message);
  // The message may come from a server, or quote the log of a run.
  out_ << (terminal_ ? PrintableText(line) : line) << std::endl;
}

ProgressBoard::Row& ProgressBoard::FindOrAdd(const std::string& name) {
  const auto found =
      std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) { return row.name == name; });
  if (found != rows_.end()) return *found;
  const Clock::time_point now = Clock::now();
  return rows_.emplace_back(Row{name, "", now, now - kPlainInterval + kFirstPlainLine});
}

void ProgressBoard::Draw() {
  if (!terminal_) return;
  std::vector<std::string> lines;
  for (const Row& row : rows_) lines.push_back(row.line);
  screen_.Draw(lines);
}

}  // namespace braid
