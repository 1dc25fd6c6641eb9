// How jobs, runs and models look on a terminal.
#ifndef BRAID_CLIENT_TERMINAL_TABLES_H_
#define BRAID_CLIENT_TERMINAL_TABLES_H_

#include <ostream>
#include <string>
#include <vector>

#include "base/number_text.h"
#include "braid/v1/analysis.pb.h"
#include "braid/v1/pipeline.pb.h"
#include "braid/v1/training.pb.h"

namespace braid {

// Columns padded to their widest cell; cells that look like numbers are
// right-aligned. The first row is the header.
void PrintTable(const std::vector<std::vector<std::string>>& rows, std::ostream& out);

void PrintJob(const v1::Job& job, std::ostream& out);
void PrintJobs(const v1::ListJobsResponse& jobs, std::ostream& out);
void PrintRun(const v1::Run& run, std::ostream& out);
void PrintRuns(const v1::ListRunsResponse& runs, std::ostream& out);
void PrintModel(const v1::DescribeModelResponse& model, std::ostream& out);
void PrintForecast(const v1::Forecast& forecast, std::ostream& out);

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_TABLES_H_
