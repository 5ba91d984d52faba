#include "process/screen.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

namespace dovetail::app {
namespace {

constexpr std::string_view kBegin = "\x1b[?1049h\x1b[?25l";  // another screen, without a cursor
constexpr std::string_view kEnd = "\x1b[?25h\x1b[?1049l";
constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGWINCH};

std::array<int, 2> wake{-1, -1};  // a handler may only write
std::optional<termios> before;
std::array<struct sigaction, kSignals.size()> handlers_before{};

void note_signal(int signal) {
  const int error = errno;
  const char byte = signal == SIGWINCH ? 'w' : 'q';
  (void)!::write(wake[1], &byte, 1);
  errno = error;
}

void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(STDOUT_FILENO, text.data(), text.size());
    if (count < 0 && errno != EINTR) return;
    if (count > 0) text.remove_prefix(static_cast<std::size_t>(count));
  }
}

std::size_t rows_of_terminal() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) return 24;
  return size.ws_row;
}

bool is_end(char key) { return key == 'q' || key == 'Q' || key == '\x03' || key == '\x04'; }

}  // namespace

Screen::Screen() {
  if (::pipe2(wake.data(), O_CLOEXEC | O_NONBLOCK) != 0) wake = {-1, -1};
  struct sigaction action{};
  action.sa_handler = note_signal;
  for (std::size_t i = 0; i < kSignals.size(); ++i)
    ::sigaction(kSignals[i], &action, &handlers_before[i]);
  termios now{};
  if (::tcgetattr(STDIN_FILENO, &now) == 0) {
    before = now;
    now.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    now.c_cc[VMIN] = 0;
    now.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &now);
  }
  write_all(kBegin);
}

Screen::~Screen() {
  write_all(kEnd);
  if (before) ::tcsetattr(STDIN_FILENO, TCSANOW, &*before);
  before.reset();
  for (std::size_t i = 0; i < kSignals.size(); ++i)
    ::sigaction(kSignals[i], &handlers_before[i], nullptr);
  for (int& end : wake)
    if (end >= 0) ::close(std::exchange(end, -1));
}

void Screen::draw(std::string_view text) {
  std::string out = "\x1b[H";
  std::size_t rows = rows_of_terminal();
  while (!text.empty() && rows > 0) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out.append(text.substr(0, end)).append("\x1b[K");
    text.remove_prefix(std::min(end + 1, text.size()));
    if (--rows > 0 && !text.empty()) out += "\r\n";
  }
  write_all(out + "\x1b[J");
}

bool Screen::wait(Duration limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    std::array<pollfd, 2> files{pollfd{wake[0], POLLIN, 0},
                                pollfd{before ? STDIN_FILENO : -1, POLLIN, 0}};
    const int ready = ::poll(files.data(), files.size(),
                             static_cast<int>(std::min<std::int64_t>(left.count(), 60'000)));
    if (ready < 0 && errno != EINTR) return true;
    char key = 0;
    if (wake[0] >= 0 && ::read(wake[0], &key, 1) == 1) return key == 'q';
    if (ready <= 0 || (files[1].revents & (POLLIN | POLLHUP)) == 0) continue;
    // Nobody can press a key any more.
    if (::read(STDIN_FILENO, &key, 1) <= 0 || is_end(key)) return true;
  }
}

}  // namespace dovetail::app
