# The page that compares runs.
braid_library(NAME report
  SRCS
    report/evaluation_sections.cc
    report/html_text.cc
    report/report_page.cc
    report/report_run.cc
    report/report_style.cc
    report/run_curves.cc
    report/setup_sections.cc
    report/speed_section.cc
    report/svg_frame.cc
    report/svg_plot.cc
    report/training_sections.cc
  DEPS braid::proto braid::formats braid::model_config braid::run_directory
    nlohmann_json::nlohmann_json)
