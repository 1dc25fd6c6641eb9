// The sections of the report page. Each is a pure function from runs to HTML, and
// empty when no run has its data.
#ifndef BRAID_REPORT_REPORT_SECTIONS_H_
#define BRAID_REPORT_REPORT_SECTIONS_H_

#include <span>
#include <string>

#include "report/html_page.h"
#include "report/report_run.h"

namespace braid {

// runs_section.cc
std::string RunTableSection(std::span<const ReportRun> runs);
// loss_section.cc
// Dense against MoE at equal tokens, for the runs that differ only in that.
std::string GainSection(std::span<const ReportRun> runs);
std::string LossSection(std::span<const ReportRun> runs);

// utilisation_section.cc
std::string UtilisationSection(std::span<const ReportRun> runs);

// perplexity_section.cc
std::string PerplexitySection(std::span<const ReportRun> runs);

// tasks_section.cc
std::string TasksSection(std::span<const ReportRun> runs);

// routing_section.cc
std::string RoutingSection(std::span<const ReportRun> runs);

// speed_section.cc
std::string SpeedSection(std::span<const ReportRun> runs);

// life_section.cc
// "a rank hung".
const char* IncidentText(v1::IncidentKind kind);
std::string LifeSection(std::span<const ReportRun> runs);

// setup_sections.cc
std::string OrderingSection(std::span<const ReportRun> runs);
std::string SampleSection(std::span<const ReportRun> runs);

// configuration_section.cc
std::string ConfigurationSection(std::span<const ReportRun> runs);

// report_sections.cc

// A run's escaped title behind its colour.
std::string RunLabel(std::span<const ReportRun> runs, size_t run);

// Plain text for plots: the run's name when no other has it, else its title.
std::string RunName(std::span<const ReportRun> runs, size_t run);

// Held-out, over all domains, without the first segment; NaN without an evaluation.
double MainPerplexity(const ReportRun& run);

// On everything that is drawn for one run, so that a reader can hide it.
std::string RunClass(size_t run);

// The body under the run's label; folded up unless `open` when there are more runs.
std::string RunDetails(std::span<const ReportRun> runs, size_t run, const std::string& body,
                       bool open);

// "61.2" in large and "59.0 to 63.1" below it; without an interval when an end is not finite.
std::string WithInterval(double value, double low, double high, int digits);

}  // namespace braid

#endif  // BRAID_REPORT_REPORT_SECTIONS_H_
