// A remote-launch agent without a second machine: `host_agent HOST COMMAND...` executes the
// command here, in a UTS namespace where this machine is called HOST. Each call leaves its
// arguments, a line each, in $TMPDIR/host_agent.HOST. No shell is involved.
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

int main(int argc, char** argv) {
  const char* directory = std::getenv("TMPDIR");
  if (argc < 3 || directory == nullptr) return 2;
  const std::string host = argv[1];
  std::ofstream record(std::string(directory) + "/host_agent." + host);
  for (int i = 2; i < argc; ++i) record << argv[i] << "\n";
  record.close();
  // Open MPI hands over a line for the remote shell: assignments, each ended by a semicolon, then
  // the command, some of whose words have quotes.
  std::vector<std::string> words;
  std::string word;
  bool quoted = false;
  const auto end_word = [&] {
    if (!word.empty()) words.push_back(std::exchange(word, {}));
  };
  for (int i = 2; i < argc; ++i) {
    for (const char c : std::string(argv[i])) {
      if (c == '"') {
        quoted = !quoted;
      } else if (c == ';' && !quoted) {
        word.clear();
        words.clear();
      } else if (c == ' ' && !quoted) {
        end_word();
      } else {
        word += c;
      }
    }
    end_word();
  }
  std::vector<char*> pointers;
  for (std::string& argument : words) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  if (unshare(CLONE_NEWUTS) != 0 || sethostname(host.c_str(), host.size()) != 0) return 3;
  execvp(pointers[0], pointers.data());
  return 127;
}
