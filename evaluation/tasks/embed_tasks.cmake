# cmake -DOUTPUT=FILE -DINPUTS=a.textproto,b.textproto -P embed_tasks.cmake
# Writes the table behind EmbeddedTasks().
string(REPLACE "," ";" inputs "${INPUTS}")
list(LENGTH inputs count)
set(rows "")
foreach(input ${inputs})
  get_filename_component(name "${input}" NAME)
  file(READ "${input}" text)
  string(APPEND rows "    {\"${name}\", R\"braid(${text})braid\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "#include <array>

#include \"evaluation/tasks/task_spec.h\"

namespace braid {

std::span<const EmbeddedTask> EmbeddedTasks() {
  static constexpr std::array<EmbeddedTask, ${count}> kTasks = {{
${rows}  }};
  return kTasks;
}

}  // namespace braid
")
