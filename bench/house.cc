#include "house.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "report.h"

namespace dovetail::bench {

namespace {

constexpr double kPatienceSeconds = 60;

void require(bool ok, const std::string& what) {
  if (!ok) give_up(what);
}

std::filesystem::path make_folder() {
  std::string pattern = std::filesystem::temp_directory_path() / "dovetail_bench_XXXXXX";
  require(mkdtemp(pattern.data()) != nullptr, "no folder can be made for temporary files");
  return pattern;
}

}  // namespace

void wait_for(const std::string& what, const std::function<bool()>& holds) {
  const double end = seconds_now() + kPatienceSeconds;
  while (!holds()) {
    require(seconds_now() < end, "gave up waiting until " + what);
    usleep(500);
  }
}

House::House(const std::string& config) : folder_(make_folder()) {
  std::ofstream(folder_ / "dovetail.toml") << config;
  run({"init"});
}

House::~House() {
  kill_now();
  std::filesystem::remove_all(folder_);
}

void House::wait_for_log(const std::string& part) const {
  wait_for("the log says " + part, [&] { return log().find(part) != std::string::npos; });
}

void House::kill_now() {
  if (daemon_ <= 0) return;
  kill(daemon_, SIGKILL);
  waitpid(daemon_, nullptr, 0);
  daemon_ = 0;
}

double House::stop() {
  const double start = seconds_now();
  kill(daemon_, SIGTERM);
  int state = 0;
  require(waitpid(daemon_, &state, 0) == daemon_ && WIFEXITED(state) && WEXITSTATUS(state) == 0,
          "the daemon did not stop in good order: " + log());
  daemon_ = 0;
  return (seconds_now() - start) * 1000;
}

double House::answer() {
  const double start = seconds_now();
  kill(daemon_, SIGTERM);
  wait_for_log("may finish");
  return (seconds_now() - start) * 1000;
}

std::string House::log() const {
  std::stringstream text;
  text << std::ifstream(folder_ / "daemon.log").rdbuf();
  return text.str();
}

pid_t House::spawn(std::vector<std::string> arguments, const std::string& output) const {
  const pid_t child = fork();
  require(child >= 0, "no process can be started");
  if (child > 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  arguments.insert(arguments.begin(), DOVETAIL_BINARY);
  std::vector<char*> words;
  for (std::string& one : arguments) words.push_back(one.data());
  words.push_back(nullptr);
  const int file = open(path(output).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || dup2(file, 1) < 0 || dup2(file, 2) < 0 || chdir(folder_.c_str()) != 0) _exit(126);
  unsetenv("DOVETAIL_CONFIG");
  execv(words[0], words.data());
  _exit(127);
}

void House::run(const std::vector<std::string>& arguments) const {
  int state = 0;
  waitpid(spawn(arguments, "command.log"), &state, 0);
  std::stringstream said;
  said << std::ifstream(folder_ / "command.log").rdbuf();
  require(WIFEXITED(state) && WEXITSTATUS(state) == 0,
          "dovetail " + arguments[0] + " failed: " + said.str());
}

}  // namespace dovetail::bench
