#include "tests/support/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <ostream>
#include <stdexcept>

namespace retile::test {
namespace {

void check(int error, const char* call) {
  if (error != 0) throw std::runtime_error(fmt::format("{}: {}", call, std::strerror(error)));
}

// A file without a name: a program can write any amount to it while nobody reads.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text = {}) : file_(std::tmpfile()) {
    if (!file_) check(errno, "tmpfile");
    std::fwrite(text.data(), 1, text.size(), file_.get());
    std::rewind(file_.get());
  }

  int descriptor() const { return fileno(file_.get()); }

  std::string read() {
    std::string text;
    std::rewind(file_.get());
    for (int c = std::fgetc(file_.get()); c != EOF; c = std::fgetc(file_.get())) text += static_cast<char>(c);
    return text;
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

// What the child does to its descriptors before it starts.
class FileActions {
 public:
  FileActions() { check(posix_spawn_file_actions_init(&actions_), "posix_spawn_file_actions_init"); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }

  void redirect(int from, int to) { check(posix_spawn_file_actions_adddup2(&actions_, from, to), "adddup2"); }
  void open(int descriptor, const char* path) {
    check(posix_spawn_file_actions_addopen(&actions_, descriptor, path, O_WRONLY, 0), "addopen");
  }
  void close(int descriptor) { check(posix_spawn_file_actions_addclose(&actions_, descriptor), "addclose"); }
  void enter(const std::string& folder) {
    check(posix_spawn_file_actions_addchdir_np(&actions_, folder.c_str()), "addchdir");
  }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

// The writing end of a pipe that nobody reads.
int open_closed_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) check(errno, "pipe2");
  close(ends[0]);
  return ends[1];
}

// A child whose SIGPIPE has its usual effect, whatever the test's parent does with it.
pid_t spawn(const std::vector<std::string>& arguments, const FileActions& actions) {
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  posix_spawnattr_t attributes;
  check(posix_spawnattr_init(&attributes), "posix_spawnattr_init");
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  const int error = posix_spawn(&child, pointers[0], actions.get(), &attributes, pointers.data(), environ);
  posix_spawnattr_destroy(&attributes);
  check(error, pointers[0]);
  return child;
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) check(errno, "waitpid");
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

void PrintTo(const ProcessResult& result, std::ostream* out) {
  *out << "exit status " << result.status << "\n--- output:\n" << result.output << "--- errors:\n" << result.errors;
}

ProcessResult run_process(const std::vector<std::string>& arguments, const ProcessInput& input) {
  const TemporaryFile in(input.text);
  TemporaryFile out;
  TemporaryFile errors;
  FileActions actions;
  int pipe = -1;
  actions.enter(input.folder);
  actions.redirect(in.descriptor(), STDIN_FILENO);
  actions.redirect(errors.descriptor(), STDERR_FILENO);
  switch (input.output) {
    case ProcessInput::Output::captured:
      actions.redirect(out.descriptor(), STDOUT_FILENO);
      break;
    case ProcessInput::Output::full_device:
      actions.open(STDOUT_FILENO, "/dev/full");
      break;
    case ProcessInput::Output::closed_pipe:
      pipe = open_closed_pipe();
      actions.redirect(pipe, STDOUT_FILENO);
      break;
    case ProcessInput::Output::closed:
      actions.close(STDOUT_FILENO);
      break;
  }
  const pid_t child = spawn(arguments, actions);
  if (pipe >= 0) close(pipe);
  const int status = wait_for(child);
  return {status, out.read(), errors.read()};
}

}  // namespace retile::test
