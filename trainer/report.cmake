# The page that compares runs.
braid_library(NAME report
  SRCS
    report/bar_chart.cc
    report/configuration_section.cc
    report/dot_chart.cc
    report/fast_metrics.cc
    report/heat_map.cc
    report/html_page.cc
    report/html_text.cc
    report/life_section.cc
    report/line_chart.cc
    report/line_readout.cc
    report/loss_findings.cc
    report/loss_section.cc
    report/perplexity_section.cc
    report/plot_series.cc
    report/report_data.cc
    report/report_page.cc
    report/report_run.cc
    report/report_sections.cc
    report/report_style.cc
    report/routing_section.cc
    report/run_comparison.cc
    report/run_curves.cc
    report/run_life.cc
    report/runs_section.cc
    report/setup_sections.cc
    report/speed_section.cc
    report/stacked_bars.cc
    report/svg_frame.cc
    report/tasks_section.cc
    report/time_line.cc
    report/utilisation_section.cc
  DEPS braid::proto braid::formats braid::model_config braid::run_directory
    nlohmann_json::nlohmann_json simdjson::simdjson)
