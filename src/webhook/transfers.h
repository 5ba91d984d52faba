// Running requests: libcurl's multi interface, driven by epoll.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/handle.h"
#include "dovetail/result.h"
#include "webhook/options.h"
#include "webhook/posting.h"

namespace dovetail::http {

// The result of a request.
struct Answer {
  long status = 0;                 // 0: no answer
  std::string_view retry_after{};  // as the endpoint wrote it
  bool was_sent = true;            // if there is no status: whether the endpoint may have seen it
  std::string text{};              // if there is no status: what happened
};

// One thread at a time. Only open(), probe() and run() block, each with a limit.
class Transfers {
 public:
  Transfers(const SinkOptions& options, const UrlTemplate& url, Clock& clock);
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;
  ~Transfers();

  // Drops every connection and every request.
  Status open();
  // Connects, with TLS if used, and sends nothing. unavailable: the text says why.
  Status probe();

  // Asks the endpoint for its abilities (OPTIONS), without an event or credentials.
  struct Greeting {
    long status = 0;
    std::optional<WallTime> date{};  // by its clock
  };
  Result<Greeting> greet();

  bool is_full() const { return idle_.empty(); }
  std::size_t in_flight() const { return transfers_.size() - idle_.size(); }

  // Fill it for the next start(). REQUIRES: not is_full().
  Posting& next();
  // Sends what next() got. The body must stay valid until the answer has come.
  void start(void* request);
  // Continues all requests and calls `done` for each that has its answer. Returns after the first
  // such round, or after `timeout`.
  void run(Duration timeout, const std::function<void(void* request, const Answer&)>& done);

 private:
  struct Transfer;
  struct Callbacks;
  static void free_multi(void* multi);
  class Descriptor {
   public:
    Descriptor() = default;
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() { reset(-1); }
    void reset(int fd);
    int get() const { return fd_; }

   private:
    int fd_ = -1;
  };

  // What curl wants of a descriptor, and what epoll was told. Between two requests curl wants
  // nothing; epoll learns that only when something comes anyway.
  struct Watch {
    std::uint32_t wanted = 0;
    std::uint32_t told = 0;
    bool is_connection = false;  // false: it closes untold, and its number may return as one
  };

  void set_up(Transfer& transfer);
  Watch& watch_of(int fd);
  bool tell(int fd, Watch& watch);
  bool take_answers(const std::function<void(void*, const Answer&)>& done);

  const SinkOptions& options_;
  const UrlTemplate& url_;
  Clock& clock_;
  Descriptor epoll_;
  std::vector<Watch> watches_;  // by descriptor
  std::vector<std::unique_ptr<Transfer>> transfers_;
  std::vector<Transfer*> idle_;
  Handle<void, free_multi> multi_;
  bool timer_set_ = false;
  TimePoint timer_at_{};
};

}  // namespace dovetail::http
