// Listings and details of jobs, runs and models for a terminal.
#ifndef BRAID_CLIENT_TERMINAL_TABLES_H_
#define BRAID_CLIENT_TERMINAL_TABLES_H_

#include <ostream>
#include <string>

#include "base/number_text.h"
#include "braid/v1/forecast.pb.h"
#include "braid/v1/job.pb.h"
#include "braid/v1/training.pb.h"
#include "client/terminal/table.h"

namespace braid::v1 {
class ListJobsResponse;
}  // namespace braid::v1

namespace braid {

// Returns the name of a job or run as one line that is safe on a terminal. Longer names than those
// that services accept today (base/display_name.h) are cut.
std::string NameText(const std::string& name);

// Prints a job with its stages and, when it succeeded, its result.
void PrintJob(const v1::Job& job, std::ostream& out);
// Prints one line per job.
void PrintJobs(const v1::ListJobsResponse& jobs, std::ostream& out);
// Prints a run with its newest metrics.
void PrintRun(const v1::Run& run, std::ostream& out);
// Prints one line per run.
void PrintRuns(const v1::ListRunsResponse& runs, std::ostream& out);
// Prints the parameter counts of a model and, when present, its forecast.
void PrintModel(const v1::DescribeModelResponse& model, std::ostream& out);
// Prints the memory, communication and time that training needs on each rank.
void PrintForecast(const v1::Forecast& forecast, std::ostream& out);

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_TABLES_H_
