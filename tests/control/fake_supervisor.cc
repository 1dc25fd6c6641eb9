// Executes the mpirun of launch.json, with its output in trainer.log: braid-supervisor without any
// supervision.
#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

int main(int, char** argv) {
  const std::string run_dir = argv[1];
  const nlohmann::json launch = nlohmann::json::parse(std::ifstream(run_dir + "/launch.json"));
  const auto arguments = launch.at("arguments").get<std::vector<std::string>>();
  std::vector<std::string> variables = {"BRAID_RUN_NONCE=0123456789abcdef"};
  for (const auto& [name, value] : launch.at("variables").items()) {
    variables.push_back(name + "=" + value.get<std::string>());
  }
  std::vector<char*> argument_pointers, variable_pointers;
  for (const std::string& each : arguments) {
    argument_pointers.push_back(const_cast<char*>(each.c_str()));
  }
  for (const std::string& each : variables) {
    variable_pointers.push_back(const_cast<char*>(each.c_str()));
  }
  argument_pointers.push_back(nullptr);
  variable_pointers.push_back(nullptr);
  const int log =
      open((run_dir + "/trainer.log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (dup2(log, 1) < 0 || dup2(log, 2) < 0) return 1;
  execve(argument_pointers[0], argument_pointers.data(), variable_pointers.data());
  return 127;
}
