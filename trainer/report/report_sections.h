// The sections of the report page. Each is a pure function from runs to HTML, and
// empty when no run has its data.
#ifndef BRAID_TRAINER_REPORT_REPORT_SECTIONS_H_
#define BRAID_TRAINER_REPORT_REPORT_SECTIONS_H_

#include <span>
#include <string>

#include "trainer/report/report_run.h"

namespace braid {

// training_sections.cc
std::string RunTableSection(std::span<const ReportRun> runs);
// Dense against MoE at equal tokens, for the runs that differ only in that.
std::string GainSection(std::span<const ReportRun> runs);
std::string LossSection(std::span<const ReportRun> runs);
std::string UtilisationSection(std::span<const ReportRun> runs);

// evaluation_sections.cc
std::string PerplexitySection(std::span<const ReportRun> runs);
std::string RoutingSection(std::span<const ReportRun> runs);
std::string SampleSection(std::span<const ReportRun> runs);

// speed_section.cc
std::string SpeedSection(std::span<const ReportRun> runs);

// setup_sections.cc
std::string OrderingSection(std::span<const ReportRun> runs);
std::string ConfigurationSection(std::span<const ReportRun> runs);

// <section> with a heading, a sentence that says how to read it, and a body; empty
// when the body is. `heading` and `explanation` are HTML.
std::string Section(const std::string& heading, const std::string& explanation,
                    const std::string& body);

// A run's escaped title behind its colour.
std::string RunLabel(std::span<const ReportRun> runs, size_t run);

}  // namespace braid

#endif  // BRAID_TRAINER_REPORT_REPORT_SECTIONS_H_
