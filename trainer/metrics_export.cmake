# A run's metrics for other programs: no tensor library, no MPI, no gRPC.
braid_library(NAME metrics_export
  SRCS
    metrics_export/csv_table.cc
    metrics_export/metric_series.cc
    metrics_export/metrics_export.cc
    metrics_export/run_events.cc
    metrics_export/series_summary.cc
    metrics_export/tensorboard_log.cc
    metrics_export/text_tables.cc
  DEPS braid::proto braid::formats braid::run_directory absl::str_format)
