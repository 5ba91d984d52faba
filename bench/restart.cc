// How soon the daemon serves a signal, whatever it waits for, and how soon the next one goes on
// after `kill -9`.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sqlite3.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "house.h"
#include "report.h"

namespace dovetail::bench {
namespace {

constexpr int kRuns = 9;
constexpr int kKept = 5;
constexpr double kSignalMillisecondsMax = 100;
constexpr double kResumeMillisecondsMax = 1000;

void require(bool ok, const std::string& what) {
  if (!ok) give_up(what);
}

std::string config_for(const std::string& target) {
  return "[store.orders]\nurl = \"sqlite:orders.db\"\n\n[store.target]\n" + target +
         "\n[[relay]]\nname = \"out\"\nfrom = \"orders\"\nto = \"target\"\nlease = \"1h\"\n";
}

void publish(const House& house) {
  house.run({"publish", "--store", "orders", "--aggregate-type", "order", "--key", "17", "--type",
             "placed", "--payload", "{}"});
}

// Takes connections, as the kernel does for it, and never says a word.
class Silent {
 public:
  Silent() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    require(bind(socket_, any, length) == 0 && listen(socket_, 16) == 0 &&
                getsockname(socket_, any, &length) == 0,
            "no port can be opened");
    port_ = ntohs(address.sin_port);
  }
  ~Silent() { close(socket_); }
  Silent(const Silent&) = delete;
  Silent& operator=(const Silent&) = delete;
  std::string target() const {
    return fmt::format(
        "url = \"http://127.0.0.1:{}/events\"\n[store.target.settings]\nallow_private = true\n",
        port_);
  }

 private:
  const int socket_;
  int port_ = 0;
};

const char* const kMailbox = "url = \"sqlite:target.db\"\ntopics = [\"order.events\"]\n";

std::int64_t mailbox(const House& house) {
  sqlite3* db = nullptr;
  std::int64_t count = -1;
  if (sqlite3_open_v2(house.path("target.db").c_str(), &db, SQLITE_OPEN_READONLY, nullptr) ==
      SQLITE_OK) {
    sqlite3_busy_timeout(db, 1000);
    sqlite3_stmt* statement = nullptr;
    sqlite3_prepare_v2(db, "SELECT count(*) FROM dovetail_mailbox", -1, &statement, nullptr);
    if (sqlite3_step(statement) == SQLITE_ROW) count = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
  }
  sqlite3_close(db);
  return count;
}

double stop_when_idle() {
  House house(config_for(kMailbox));
  house.start();
  house.wait_for_log("started");
  return house.stop();
}

// Nobody listens at the receiver's port.
double stop_while_backing_off() {
  std::string target;
  {
    const Silent gone;
    target = gone.target();
  }
  House house(config_for(target));
  publish(house);
  house.start();
  house.wait_for_log("sink_lost");
  return house.stop();
}

double answer_while_a_receiver_is_silent() {
  const Silent receiver;
  House house(config_for(receiver.target()));
  publish(house);
  house.start();
  house.wait_for_log("started");
  usleep(300'000);  // the request is out, and nobody answers it
  return house.answer();
}

double resume_after_kill() {
  House house(config_for(kMailbox));
  publish(house);
  house.start();
  wait_for("the first event is there", [&] { return mailbox(house) == 1; });
  publish(house);
  wait_for("the second event is there", [&] { return mailbox(house) == 2; });
  house.kill_now();
  publish(house);
  const double start = seconds_now();
  house.start();
  wait_for("the third event is there", [&] { return mailbox(house) == 3; });
  return (seconds_now() - start) * 1000;
}

int run() {
  progress("signals, and restarts after kill -9");
  const std::vector<double> times = least_disturbed(kRuns, kKept, [] {
    return std::vector<double>{stop_when_idle(), stop_while_backing_off(),
                               answer_while_a_receiver_is_silent(), resume_after_kill()};
  });
  Report report("restart");
  report.add({.name = "signal to end, idle",
              .value = times[0],
              .unit = "ms",
              .at_most = kSignalMillisecondsMax});
  report.add({.name = "signal to end, receiver away",
              .value = times[1],
              .unit = "ms",
              .at_most = kSignalMillisecondsMax});
  report.add({.name = "signal to its answer, receiver silent",
              .value = times[2],
              .unit = "ms",
              .at_most = kSignalMillisecondsMax});
  report.add({.name = "next event after kill -9, lease of 1 h",
              .value = times[3],
              .unit = "ms",
              .at_most = kResumeMillisecondsMax});
  return report.finish();
}

}  // namespace
}  // namespace dovetail::bench

int main() { return dovetail::bench::run(); }
