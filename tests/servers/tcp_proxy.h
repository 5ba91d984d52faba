// A proxy before a server's port, on loopback, that treats connections like a bad network. It knows
// no protocol, so it works for any server, with TLS or without.
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

// Any thread. A function's effect is complete when it returns. The connections belong to the
// proxy's thread, and are reset when it is destroyed.
class TcpProxy {
 public:
  // Listens on a free port, or on the given one for brokers that tell clients where to connect
  // (Kafka). At first it passes everything.
  explicit TcpProxy(int server_port, int port = 0);
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;
  ~TcpProxy();

  int port() const { return port_; }

  // Resets all connections; later ones are served.
  void cut();
  // True: new connections are refused; existing ones stay.
  void refuse(bool refused);
  // Nothing passes in either direction, new connections get no answer, and none ends.
  void stall();
  void flow();
  // Works once, on the first connection that gets more than `after_bytes` of answers from now on:
  // further answers are dropped while requests still arrive, and after kLossTime the connection is
  // cut.
  void lose_answers(std::uint64_t after_bytes);
  // In each direction, for all connections together; 0: no limit.
  void slow(std::uint64_t bytes_per_second);

  static constexpr std::chrono::milliseconds kLossTime{100};

  struct Counters {
    std::uint64_t connections = 0;  // accepted so far
    std::uint64_t requests = 0;     // bytes that the server got
    std::uint64_t answers = 0;      // bytes that clients got
    std::uint64_t swallowed = 0;    // answer bytes dropped by lose_answers()
    std::uint64_t losses = 0;       // how often lose_answers() has worked
    std::uint64_t open = 0;         // open now
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
  int reserved_ = -1;  // keeps the port reserved while nobody listens
  int wake_ = -1;

  // Used by the loop's thread.
  int listener_ = -1;
  std::list<Link> links_;
  bool stalled_ = false;
  bool losing_ = false;
  std::uint64_t lose_after_ = 0;
  bool ended_ = false;
  std::uint64_t rate_ = 0;  // 0: no limit
  std::chrono::steady_clock::time_point refilled_at_{};
  std::uint64_t request_budget_ = 0;  // bytes that may pass now
  std::uint64_t answer_budget_ = 0;
  Counters counters_;

  std::mutex mutex_;
  std::vector<std::function<void()>> work_;

  std::thread thread_;  // last, because it uses the other members
};

}  // namespace dovetail::servers
