#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/number_text.h"
#include "report/html_text.h"
#include "report/report_sections.h"
#include "report/svg_plot.h"

namespace braid {
namespace {

// The CSS class and the name of a state.
struct StateStyle {
  const char* css_class;
  const char* text;
};

StateStyle StyleOf(v1::RunState state) {
  switch (state) {
    case v1::RUN_QUEUED:
      return {"idle", "queued"};
    case v1::RUN_STARTING:
      return {"idle", "starting"};
    case v1::RUN_RUNNING:
      return {"busy", "running"};
    case v1::RUN_RESTARTING:
      return {"lost", "restarting"};
    case v1::RUN_SUCCEEDED:
      return {"busy", "succeeded"};
    case v1::RUN_FAILED:
      return {"lost", "failed"};
    case v1::RUN_STOPPED:
      return {"idle", "stopped"};
    default:
      return {"busy", "unknown"};
  }
}

std::string HostsOf(const ReportRun& run) {
  std::set<std::string> hosts;
  for (const v1::Heartbeat& beat : run.heartbeats) hosts.insert(beat.host());
  return absl::StrJoin(hosts, ", ");
}

TimeLine::Row RowOf(std::span<const ReportRun> runs, size_t i) {
  const RunLife& life = runs[i].life;
  TimeLine::Row row{RunName(runs, i), static_cast<int>(i), {}, {}, RunClass(i)};
  for (const RunLife::Stretch& stretch : life.stretches) {
    const StateStyle style = StyleOf(stretch.state);
    row.stretches.push_back({stretch.start - life.started, stretch.end - life.started,
                             style.css_class,
                             absl::StrCat(RunName(runs, i), ", ", style.text, ": ",
                                          FormatDuration(stretch.end - stretch.start))});
  }
  for (const v1::RunIncident& incident : life.incidents) {
    row.marks.push_back(
        {incident.time() - life.started, absl::StrCat(IncidentText(incident.kind()), " at step ",
                                                      incident.step(), ": ", incident.cause())});
  }
  return row;
}

HtmlTable::Row FactsOf(std::span<const ReportRun> runs, size_t i) {
  const ReportRun& run = runs[i];
  const double effective = Goodput(run.life, run.metrics);
  return {{RunLabel(runs, i), StyleOf(run.life.state).text, FormatTime(run.life.started),
           FormatDuration(run.life.ended - run.life.started),
           FormatFixed(100 * effective, 1) + (std::isfinite(effective) ? " %" : ""),
           absl::StrCat(run.life.attempts), absl::StrCat(run.life.incidents.size()),
           absl::StrCat(run.spec.world_size()), EscapeHtml(HostsOf(run))}};
}

std::string IncidentTable(std::span<const ReportRun> runs) {
  HtmlTable table{.header = {"run", "time", "incident", "step", "resumed from", "cause"},
                  .rows = {},
                  .numeric = false};
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const v1::RunIncident& incident : runs[i].life.incidents) {
      table.rows.push_back(
          {{RunLabel(runs, i), FormatDuration(incident.time() - runs[i].life.started),
            IncidentText(incident.kind()), absl::StrCat(incident.step()),
            absl::StrCat(incident.resumed_step()), EscapeHtml(incident.cause())}});
    }
    for (const v1::SlowRank& slow : runs[i].life.slow_ranks) {
      table.rows.push_back(
          {{RunLabel(runs, i), "", "a rank was slow", absl::StrCat(slow.step()), "",
            EscapeHtml(absl::StrCat("rank ", slow.rank(), " on ", slow.host(), ": ",
                                    FormatFixed(slow.ratio(), 2), " times the median"))}});
    }
  }
  return table.rows.empty() ? "" : "<h3>Incidents</h3>\n" + RenderTable(table);
}

}  // namespace

const char* IncidentText(v1::IncidentKind kind) {
  switch (kind) {
    case v1::RANK_HUNG:
      return "a rank hung";
    case v1::TRAINER_DIED:
      return "the trainer died";
    case v1::TRAINER_FAILED:
      return "the trainer failed";
    case v1::LAUNCH_FAILED:
      return "the launch failed";
    case v1::LOST:
      return "all processes were lost";
    default:
      return "unknown";
  }
}

std::string LifeSection(std::span<const ReportRun> runs) {
  TimeLine line{
      .description = "State of each run over the time since its start", .rows = {}, .width = 760};
  HtmlTable facts{.header = {"run", "state", "started, UTC", "duration", "goodput", "attempts",
                             "incidents", "ranks", "hosts"},
                  .rows = {}};
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].life.started <= 0) continue;
    line.rows.push_back(RowOf(runs, i));
    facts.rows.push_back(FactsOf(runs, i));
  }
  if (facts.rows.empty()) return "";
  return Section("Timeline of the runs",
                 "Full color: running; pale: queued or starting; hatched edge: restarting; "
                 "triangles: incidents. Goodput: the share of the time, while the run had not "
                 "ended, that was spent in steps that were kept.",
                 RenderTimeLine(std::move(line)) + RenderTable(facts) + IncidentTable(runs),
                 "life");
}

}  // namespace braid
