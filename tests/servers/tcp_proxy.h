// A proxy before a server's port, on loopback, that does to connections what networks do. It knows
// no protocol, so it stands before any server, with TLS or without.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

struct pollfd;

namespace dovetail::servers {

// Any thread. What a function does is done when it returns. The connections live in a thread of the
// proxy's own, and are reset when it is destroyed.
class TcpProxy {
 public:
  // Listens on a free port, or on the given one, for brokers that tell their clients where to
  // connect (Kafka). Passes everything through at first.
  explicit TcpProxy(int server_port, int port = 0);
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;
  ~TcpProxy();

  int port() const { return port_; }

  // Resets all connections; those made afterwards are served.
  void cut();
  // True: nobody listens, and new connections are refused. Those that are there stay.
  void refuse(bool refused);
  // Nothing passes in either direction, new connections get no answer, and none of them ends.
  void stall();
  void flow();
  // Once, on the first connection that gets more than `after_bytes` of answers from now on: the
  // answers beyond are swallowed while requests still arrive, and after kLossTime the connection is
  // cut.
  void lose_answers(std::uint64_t after_bytes);
  // In each direction, over all connections together; 0: as fast as it can.
  void slow(std::uint64_t bytes_per_second);

  static constexpr std::chrono::milliseconds kLossTime{100};

  struct Counters {
    std::uint64_t connections = 0;  // accepted so far
    std::uint64_t requests = 0;     // bytes that the server got
    std::uint64_t answers = 0;      // bytes that clients got
    std::uint64_t swallowed = 0;    // bytes that they did not get, by lose_answers()
    std::uint64_t losses = 0;       // how often lose_answers() has taken place
    std::uint64_t open = 0;         // connections now
  };
  Counters counters();

 private:
  struct Link;
  struct Stream;

  void on_loop(std::function<void()> work);
  void take_work();
  void run();
  int wait_ms() const;
  void refill();
  void listen_again();
  void accept_one();
  void want(std::vector<pollfd>& wanted, Link& link) const;
  void serve(Link& link, short client, short server);
  void pass(Link& link, Stream& stream, bool readable, bool writable);
  void read_some(Link& link, Stream& stream);
  void lose(Link& link);
  void write_some(Link& link, Stream& stream);
  void sweep();
  void reset(Link& link);

  const int server_port_;
  int port_ = 0;
  int reserved_ = -1;  // keeps the port ours while nobody listens
  int wake_ = -1;

  // Of the loop's thread.
  int listener_ = -1;
  std::list<Link> links_;
  bool stalled_ = false;
  bool losing_ = false;
  std::uint64_t lose_after_ = 0;
  bool ended_ = false;
  std::uint64_t rate_ = 0;  // 0: not slow
  std::chrono::steady_clock::time_point refilled_at_{};
  std::uint64_t request_budget_ = 0;  // bytes that may pass now
  std::uint64_t answer_budget_ = 0;
  Counters counters_;

  std::mutex mutex_;
  std::vector<std::function<void()>> work_;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace dovetail::servers
