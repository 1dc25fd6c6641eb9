// The sections of the report page. Each is a pure function from runs to HTML that returns "" when
// no run has its data.
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
// Compares dense and MoE runs at equal tokens that differ in nothing else.
std::string GainSection(std::span<const ReportRun> runs);
std::string LossSection(std::span<const ReportRun> runs);

// utilization_section.cc
std::string UtilizationSection(std::span<const ReportRun> runs);

// mixing_section.cc
std::string MixingSection(std::span<const ReportRun> runs);

// perplexity_section.cc
std::string PerplexitySection(std::span<const ReportRun> runs);

// tasks_section.cc
std::string TasksSection(std::span<const ReportRun> runs);

// routing_section.cc
std::string RoutingSection(std::span<const ReportRun> runs);

// speed_section.cc
std::string SpeedSection(std::span<const ReportRun> runs);

// life_section.cc
// Returns a description of an incident: "a rank hung".
const char* IncidentText(v1::IncidentKind kind);
std::string LifeSection(std::span<const ReportRun> runs);

// setup_sections.cc
std::string OrderingSection(std::span<const ReportRun> runs);
std::string SampleSection(std::span<const ReportRun> runs);

// configuration_section.cc
std::string ConfigurationSection(std::span<const ReportRun> runs);

// report_sections.cc

// Returns the escaped title of a run, preceded by its color.
std::string RunLabel(std::span<const ReportRun> runs, size_t run);

// Returns plain text for plots: the name of the run if it is unique, otherwise its title.
std::string RunName(std::span<const ReportRun> runs, size_t run);

// Returns a paragraph for each run with a note in the member `note`, preceded by the run's name; ""
// when there is none.
std::string RunNotes(std::span<const ReportRun> runs, std::string ReportRun::*note);

// Returns a note on each run whose losses are too low, because a segment fills its sequences and
// routes on itself; "" without any.
std::string SelfRoutingNotes(std::span<const ReportRun> runs);

// Returns the held-out perplexity over all domains without the first segment; NaN without an
// evaluation or such tokens.
double MainPerplexity(const ReportRun& run);

// Returns the CSS class of everything that is drawn for one run, by which a reader can hide it.
std::string RunClass(size_t run);

// Returns `body` under the label of the run. With several runs it is collapsed unless `open`.
std::string RunDetails(std::span<const ReportRun> runs, size_t run, const std::string& body,
                       bool open);

// Returns "61.2" with "59.0 to 63.1" in small print below; without the interval if an end is not
// finite.
std::string WithInterval(double value, double low, double high, int digits);

}  // namespace braid

#endif  // BRAID_REPORT_REPORT_SECTIONS_H_
