// What operators pay: how soon each page and each call of the API answers on a store of a million
// events, and what a relay loses while it is scraped and watched.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <libpq-fe.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "house.h"
#include "raw_postgres.h"
#include "report.h"

namespace dovetail::bench {
namespace {

constexpr int kEvents = 1'000'000;
constexpr int kPending = 150'000;  // of these, for one relay; more than is counted
constexpr int kCalls = 20;
constexpr double kCallMillisecondsMax = 300;
constexpr int kDrained = 400'000;
constexpr int kRounds = 9;
constexpr int kKept = 7;
constexpr double kThroughputRatioMin = 0.95;
constexpr double kCpuRatioMax = 1.05;
constexpr auto kScrapeEvery = std::chrono::seconds(1);
constexpr auto kPageEvery = std::chrono::seconds(2);  // as live.js does
const char* const kToken = "oooooooooooooooooooooooooooooooo";

std::string one_value(const Raw& db, const std::string& sql) {
  PGresult* const result = db.with_params(sql.c_str(), {});
  require(PQntuples(result) == 1, "no row: " + sql);
  std::string value = PQgetvalue(result, 0, 0);
  PQclear(result);
  return value;
}

std::string config_for(const std::string& conninfo) {
  return fmt::format(R"([log]
format = "json"
[http]
listen = "127.0.0.1:0"
tokens_file = "tokens"
[store.shop]
url = "postgres:{}"
[store.stock]
url = "sqlite:stock.db"
[store.mails]
url = "sqlite:mails.db"
[[relay]]
name = "out"
from = "shop"
to = "stock"
start = "now"
mode = "poll"
[[relay]]
name = "late"
from = "shop"
to = "mails"
start = "now"
mode = "poll"
)",
                     conninfo);
}

void write_tokens(const House& house) {
  std::ofstream(house.path("tokens")) << "operator olga " << kToken << "\n";
  require(chmod(house.path("tokens").c_str(), 0600) == 0, "the file of tokens cannot be closed");
}

int port_of(const House& house) {
  house.wait_for_log("\"listening\"");
  const std::string log = house.log();
  std::size_t at = log.find("listening");
  at = log.find("\"port\"", at);
  at = log.find_first_of("0123456789", at);
  require(at != std::string::npos, "the daemon does not say where it listens: " + log);
  return std::stoi(log.substr(at));
}

struct Call {
  std::string name;
  std::string path;
  std::string body{};  // empty: GET
};

// One request on a connection of its own, as a scraper sends it. Returns the body.
std::string answer_to(int port, const Call& call) {
  const int socket_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{60, 0};
  setsockopt(socket_fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  require(connect(socket_fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0,
          "the daemon takes no connection");
  const std::string request = fmt::format(
      "{} {} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\nAuthorization: Bearer {}\r\n"
      "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
      call.body.empty() ? "GET" : "POST", call.path, port, kToken, call.body.size(), call.body);
  require(write(socket_fd, request.data(), request.size()) == static_cast<ssize_t>(request.size()),
          "the request cannot be sent");
  std::string text;
  std::string part(65536, '\0');
  for (ssize_t got = 0; (got = read(socket_fd, part.data(), part.size())) > 0;)
    text.append(part, 0, static_cast<std::size_t>(got));
  close(socket_fd);
  require(text.starts_with("HTTP/1.1 200"), call.path + ": " + text.substr(0, 500));
  return text.substr(text.find("\r\n\r\n") + 4);
}

// What is left of a daemon before; the next one has another receiver.
void forget(const Raw& db) {
  db.run("TRUNCATE dovetail.outbox");
  db.run("DELETE FROM dovetail.relay_lane");
  db.run("DELETE FROM dovetail.relay_state");
}

// ---- pages

std::string numbers(int first, int last) {
  return fmt::format(" FROM generate_series({}, {}) AS i", first, last);
}

void fill_outbox(const Raw& db, int first, int last) {
  db.run(("INSERT INTO dovetail.outbox (aggregate_type, aggregate_id, type, payload) SELECT "
          "'order', (i % 5000)::text, CASE WHEN i % 3 = 0 THEN 'OrderPaid' ELSE 'OrderPlaced' END, "
          "'" +
          kPayload + "'" + numbers(first, last))
             .c_str());
}

// Of two relays: some need an operator, and most are history.
void fill_parked(const Raw& db) {
  db.run(("INSERT INTO dovetail.parked (relay, id, position, topic, aggregate_type, aggregate_id, "
          "type, content_type, headers, payload, aggregate_version, created_at, state, at_head, "
          "attempts, reason, retry_at, finished_at) SELECT CASE WHEN i % 2 = 0 THEN 'out' ELSE "
          "'late' END, dovetail.uuid7(), i, 'order.events', 'order', 'k' || i, 'OrderPlaced', "
          "'application/json', '', '{}', 0, now(), CASE WHEN i > 20000 THEN 'parked' ELSE "
          "'delivered' END, i > 20000, 5, 'HTTP 422: no article ' || i, now(), CASE WHEN i > 20000 "
          "THEN NULL ELSE now() END" +
          numbers(1, 22000))
             .c_str());
}

void fill_the_rest(const Raw& db) {
  db.run("INSERT INTO dovetail.consumer (name) VALUES ('billing')");
  db.run(
      "INSERT INTO dovetail.inbox (event_id, consumer_id) SELECT o.id, c.id FROM "
      "dovetail.outbox AS o, dovetail.consumer AS c");
  db.run(("INSERT INTO dovetail.delayed (id, topic, aggregate_type, aggregate_id, type, "
          "content_type, headers, payload, aggregate_version, created_at, deliver_at) SELECT "
          "dovetail.uuid7(), '', 'order', i::text, 'OrderPlaced', 'application/json', '', '{}', 0, "
          "now(), now() + i * interval '1 h'" +
          numbers(1, 10000))
             .c_str());
  db.run(("INSERT INTO dovetail.audit (what, relay, subject, events, reason) SELECT 'replay', "
          "'out', i::text, 1, 'asked'" +
          numbers(1, 100000))
             .c_str());
  for (const char* table : {"outbox", "inbox", "parked", "delayed", "audit"})
    db.run(fmt::format("VACUUM ANALYZE dovetail.{}", table).c_str());
}

std::vector<Call> calls_on(const Raw& db, const std::string& group) {
  const std::string middle =
      one_value(db, "SELECT id::text FROM dovetail.outbox WHERE seq = 500000");
  const std::string parked = one_value(
      db, "SELECT id::text FROM dovetail.parked WHERE state = 'parked' ORDER BY number LIMIT 1");
  const std::string time = one_value(
      db,
      "SELECT to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') FROM "
      "dovetail.outbox WHERE seq = 500000");
  const std::string api = "/api/v1/";
  return {{"page", "/"},
          {"script of the page", "/app.js"},
          {"livez", "/livez"},
          {"readyz", "/readyz"},
          {"metrics", "/metrics"},
          {"session", api + "session"},
          {"status", api + "status"},
          {"daemon", api + "daemon"},
          {"history of a relay", api + "history?relay=out"},
          {"audit", api + "audit?limit=50"},
          {"doctor", api + "doctor"},
          {"slots", api + "slots"},
          {"parked, in groups", api + "parked?limit=200"},
          {"parked, one group", api + "parked/" + group + "?limit=50"},
          {"events, the newest", api + "events?limit=50"},
          {"events, a key", api + "events?key=17&limit=50"},
          {"events, a word that is a type", api + "events?q=OrderPaid&limit=50"},
          {"events, a word that nothing has", api + "events?q=nothing&limit=50"},
          {"events, until a time in the middle", api + "events?to=" + time + "&limit=50"},
          {"events, pending", api + "events?state=pending&limit=50"},
          {"events, parked", api + "events?state=parked&limit=50"},
          {"an event's life", api + "events/" + middle},
          {"a parked event's life", api + "events/" + parked},
          {"a payload revealed", api + "events/" + middle + "/reveal", R"({"reason":"bench"})"},
          {"replay of a group, the count", api + "parked/replay",
           R"({"group":")" + group + R"(","dry_run":true})"}};
}

double median_milliseconds(int port, const Call& call) {
  std::vector<double> times;
  for (int i = 0; i < kCalls; ++i) {
    const double start = seconds_now();
    (void)answer_to(port, call);
    times.push_back((seconds_now() - start) * 1000);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

std::string first_group(int port) {
  const std::string text = answer_to(port, {"", "/api/v1/parked?limit=200"});
  const std::string name = "\"id\":\"";
  const std::size_t at = text.find(name);
  require(at != std::string::npos, "no events are parked: " + text.substr(0, 500));
  return text.substr(at + name.size(), 16);
}

void pages(const std::string& conninfo, Report& report) {
  progress(fmt::format("pages and calls on {} events", kEvents));
  const Raw db(conninfo);
  db.run("SET synchronous_commit = off");
  fill_outbox(db, 1, kEvents - kPending);
  House house(config_for(conninfo));
  write_tokens(house);
  house.start();
  const int port = port_of(house);
  wait_for("both relays have begun", [&] {
    return one_value(db, "SELECT count(*) FROM dovetail.relay_lane WHERE owner <> ''") == "2";
  });
  house.run({"relay", "pause", "late", "--reason", "bench"});
  fill_outbox(db, kEvents - kPending + 1, kEvents);
  wait_for("one relay is through", [&] {
    return one_value(db, "SELECT delivered_total FROM dovetail.relay_lane WHERE relay = 'out'") ==
           std::to_string(kPending);
  });
  fill_parked(db);
  fill_the_rest(db);
  const std::string group = first_group(port);
  for (const Call& call : calls_on(db, group)) {
    const double took = median_milliseconds(port, call);
    progress(fmt::format("  {}: {:.1f} ms", call.name, took));
    report.add({.name = call.name, .value = took, .unit = "ms", .at_most = kCallMillisecondsMax});
  }
  house.kill_now();
  db.run("TRUNCATE dovetail.inbox, dovetail.parked, dovetail.delayed");
}

// ---- a relay that is watched

// Scrapes metrics and keeps an overview open, until it ends.
class Onlookers {
 public:
  explicit Onlookers(int port) {
    threads_.emplace_back([this, port](const std::stop_token& stop) {
      again_and_again(stop, kScrapeEvery, [port] { (void)answer_to(port, {"", "/metrics"}); });
    });
    threads_.emplace_back([this, port](const std::stop_token& stop) {
      again_and_again(stop, kPageEvery, [port] {
        for (const char* path : {"status", "daemon", "audit?limit=5", "history?relay=out"})
          (void)answer_to(port, {"", std::string("/api/v1/") + path});
      });
    });
  }

 private:
  template <typename Look>
  void again_and_again(const std::stop_token& stop, std::chrono::seconds every, Look look) {
    while (!stop.stop_requested()) {
      look();
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, stop, every, [] { return false; });
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::jthread> threads_;  // the last: they end before what they use
};

struct Drain {
  double events_per_second = 0;
  double cpu_per_event = 0;  // microseconds
};

// The same way every time: an empty outbox, a new receiver, a daemon that has begun.
Drain drain(const Raw& db, const std::string& conninfo, bool is_watched) {
  forget(db);
  std::string config = config_for(conninfo);
  config.erase(config.rfind("[[relay]]"));
  House house(config);
  write_tokens(house);
  house.start();
  const int port = port_of(house);
  const std::string begun =
      "SELECT count(*) FROM dovetail.relay_lane WHERE relay = 'out' AND owner "
      "<> ''";
  wait_for("the relay has begun", [&] { return one_value(db, begun) == "1"; });
  const std::string delivered =
      "SELECT delivered_total FROM dovetail.relay_lane WHERE relay = 'out'";
  std::optional<Onlookers> onlookers;
  if (is_watched) onlookers.emplace(port);
  fill_outbox(db, 1, kDrained);
  const double cpu = process_cpu_seconds(house.daemon());
  const double start = seconds_now();
  while (std::stoll(one_value(db, delivered)) < kDrained) usleep(5'000);
  const double seconds = seconds_now() - start;
  const double spent = process_cpu_seconds(house.daemon()) - cpu;
  return {kDrained / seconds, spent * 1e6 / kDrained};
}

void watched(const std::string& conninfo, Report& report) {
  progress("a relay that is scraped every second and watched, beside one that is not");
  const Raw db(conninfo);
  db.run("SET synchronous_commit = off");
  int round = 0;
  const std::vector<double> figures = least_disturbed(kRounds, kKept, [&] {
    const bool is_first = ++round % 2 == 0;
    const Drain first = drain(db, conninfo, is_first);
    const Drain second = drain(db, conninfo, !is_first);
    const Drain& with = is_first ? first : second;
    const Drain& without = is_first ? second : first;
    return std::vector<double>{with.events_per_second / without.events_per_second,
                               with.cpu_per_event / without.cpu_per_event,
                               without.events_per_second,
                               with.events_per_second,
                               without.cpu_per_event,
                               with.cpu_per_event};
  });
  report.add({.name = "throughput, watched to unwatched",
              .value = figures[0],
              .unit = "ratio",
              .at_least = kThroughputRatioMin});
  report.add({.name = "CPU per event, watched to unwatched",
              .value = figures[1],
              .unit = "ratio",
              .at_most = kCpuRatioMax});
  report.add({.name = "throughput, unwatched", .value = figures[2], .unit = "events/s"});
  report.add({.name = "throughput, watched", .value = figures[3], .unit = "events/s"});
  report.add({.name = "CPU per event, unwatched", .value = figures[4], .unit = "us"});
  report.add({.name = "CPU per event, watched", .value = figures[5], .unit = "us"});
}

void run(const std::string& conninfo, Report& report, const std::vector<std::string>& wanted) {
  run_parts(report, wanted,
            {{"pages", [&](Report& to) { pages(conninfo, to); }},
             {"watched", [&](Report& to) { watched(conninfo, to); }}});
}

}  // namespace
}  // namespace dovetail::bench

int main(int argc, char** argv) {
  return dovetail::bench::on_postgres("operate", {argv + 1, argv + argc}, dovetail::bench::run);
}
