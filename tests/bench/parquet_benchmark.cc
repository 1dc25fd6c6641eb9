// Measures megabytes of text per second of CPU time that one thread reads from a column of Parquet
// files, row by row, each copied as ingest does.
//
//   braid-bench-parquet --column text books.parquet
//
// tests/peers/parquet_speed.py compares it with pyarrow.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "formats/parquet/parquet_reader.h"
#include "tests/bench/or_exit.h"

namespace braid {
namespace {

struct ParquetSettings {
  std::vector<std::string> files;
  std::string column = "text", json;
  int repeats = 3;
};

double CpuSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct ColumnSize {
  int64_t rows = 0, bytes = 0;
};

ColumnSize ReadColumn(const ParquetSettings& settings) {
  ColumnSize size;
  std::string text;
  for (const std::string& file : settings.files) {
    ParquetReader reader = OrExit(ParquetReader::Open(file));
    OrExit(reader.Select({settings.column}));
    while (reader.row() < reader.num_rows()) {
      OrExit(reader.Next());
      text.assign(reader.cell(0).bytes);
      size.bytes += static_cast<int64_t>(text.size());
      ++size.rows;
    }
  }
  return size;
}

nlohmann::ordered_json MeasureParquet(const ParquetSettings& settings) {
  double least = INFINITY;
  ColumnSize size;
  for (int i = 0; i < settings.repeats; ++i) {
    const double start = CpuSeconds();
    size = ReadColumn(settings);
    least = std::min(least, CpuSeconds() - start);
  }
  return {{"rows", size.rows},
          {"bytes", size.bytes},
          {"cpu_seconds", least},
          {"megabytes_per_cpu_second", static_cast<double>(size.bytes) / 1e6 / least}};
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  braid::ParquetSettings settings;
  CLI::App app("Measure how fast a text column of Parquet files is read");
  app.add_option("files", settings.files, "Parquet files")->required();
  app.add_option("--column", settings.column, "Column with text");
  app.add_option("--repeats", settings.repeats, "Runs, of which the fastest counts")
      ->check(CLI::PositiveNumber);
  app.add_option("--json", settings.json, "File for the report");
  CLI11_PARSE(app, argc, argv);
  const auto report = braid::MeasureParquet(settings);
  std::cout << report.dump() << std::endl;
  if (!settings.json.empty()) std::ofstream(settings.json) << report.dump(2) << "\n";
}
