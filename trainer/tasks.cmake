braid_library(NAME bootstrap SRCS evaluation/bootstrap.cc DEPS braid::proto)

# In-context evaluation of tasks: files, prompts, scoring, figures; no LibTorch. Every
# *.textproto beside the code is a built-in task.
file(GLOB task_files CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/evaluation/tasks/*.textproto)
set(embedded_tasks ${CMAKE_CURRENT_BINARY_DIR}/embedded_tasks.cc)
string(REPLACE ";" "," task_list "${task_files}")
add_custom_command(
  OUTPUT ${embedded_tasks}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${embedded_tasks} -DINPUTS=${task_list}
    -P ${CMAKE_CURRENT_SOURCE_DIR}/evaluation/tasks/embed_tasks.cmake
  DEPENDS ${task_files} ${CMAKE_CURRENT_SOURCE_DIR}/evaluation/tasks/embed_tasks.cmake
  VERBATIM)
braid_library(NAME tasks
  SRCS
    ${embedded_tasks}
    evaluation/tasks/answer_log.cc
    evaluation/tasks/answer_text.cc
    evaluation/tasks/delimited_text.cc
    evaluation/tasks/demonstration_set.cc
    evaluation/tasks/example_answer.cc
    evaluation/tasks/field_rule.cc
    evaluation/tasks/random_order.cc
    evaluation/tasks/task_evaluation.cc
    evaluation/tasks/task_examples.cc
    evaluation/tasks/task_figures.cc
    evaluation/tasks/task_files.cc
    evaluation/tasks/task_prompt.cc
    evaluation/tasks/task_record.cc
    evaluation/tasks/task_spec.cc
    evaluation/tasks/text_template.cc
  DEPS braid::bootstrap braid::config braid::formats braid::nearest_word braid::proto
    nlohmann_json::nlohmann_json absl::str_format)
target_link_libraries(braid_tasks PRIVATE PkgConfig::ICU PkgConfig::RE2)
