// A proxy before an HTTP service. A request with an idempotency key reaches the service once: its
// answer is kept, and repeats get that answer.
//
// The endpoint's thread passes a request to a thread with a store connection, which begins the
// request there or answers at once. A second thread waits for the service. Then the store keeps the
// answer, and the client gets it. One more thread answers clients that have waited long enough for
// a store that is unavailable or hangs; it never waits for the store.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "core/inbox/request.h"
#include "dovetail/result.h"
#include "gateway/options.h"
#include "server/endpoint.h"

namespace dovetail::http {

struct GatewayNotice {
  enum class Level : std::uint8_t { debug, info, warn, error };
  Level level;
  std::string text;
  std::string key{};  // in its form for logs
};

struct GatewayCounts {
  std::uint64_t executed = 0;    // with a key; the service answered
  std::uint64_t replayed = 0;    // repeats that got the kept answer
  std::uint64_t running = 0;     // 409
  std::uint64_t unknown = 0;     // 409, outcome unknown
  std::uint64_t mismatched = 0;  // 422
  std::uint64_t lost = 0;        // outcomes that became unknown
  std::uint64_t passed = 0;      // without a key
  std::uint64_t refused = 0;     // other errors of the gateway, 4xx and 5xx
};

// One thread calls start() and stop(). `notify` is called on any of its threads.
class Gateway final : private RequestHandler {
 public:
  using MakeStore = std::function<std::unique_ptr<RequestStore>()>;
  using Notify = std::function<void(const GatewayNotice&)>;

  Gateway(GatewayOptions options, MakeStore make_store, Clock& clock, Notify notify);
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;
  ~Gateway() override;  // stops at once if still running

  // rejected: the options are wrong; unavailable: the address is taken.
  Status start();
  std::uint16_t port() const { return endpoint_.port(); }

  // Takes no more requests and waits for running ones. After `drain` it gives up those at the
  // service; their outcomes are unknown. True: none was given up.
  bool stop(Duration drain);

  GatewayCounts counts() const;

 private:
  struct Job;
  using JobPointer = std::unique_ptr<Job>;
  struct Count {
    std::atomic<std::uint64_t> executed{0}, replayed{0}, running{0}, unknown{0}, mismatched{0},
        lost{0}, passed{0}, refused{0};
  };

  std::optional<Reply> begin(const Request& request) override;
  std::optional<Reply> take(Request& request) override;

  bool has_key(const Request& request) const;
  Result<std::string> key_of(const Request& request) const;
  RequestTerms terms() const;
  Reply refuse(const Problem& problem);

  void run_patience();
  struct LateReply;
  std::vector<LateReply> take_late();  // REQUIRES: mutex_ is held

  void run_store();
  JobPointer next_for_store();
  struct Lane;  // a thread with a store connection
  static Status open(Lane& lane);
  void hand_to_store(Job& job);
  void take_from_store(Job& job);
  Result<RequestTicket> begin_in(Lane& lane, Job& job);
  void begin_at(Lane& lane, JobPointer job);
  void begun(JobPointer job, const RequestTicket& ticket);
  void not_begun(JobPointer job, const Error& error);
  Result<bool> settle_in(Lane& lane, const Job& job);
  void settle_at(Lane& lane, JobPointer job);
  void not_settled(JobPointer job, const Error& error);
  void store_lost(const Error& error);
  void store_works();

  void run_service();
  JobPointer next_for_service();
  void pass_on(Forwarder& forwarder, JobPointer job);
  void answered(JobPointer job, ForwardAnswer answer);

  void to_store(JobPointer job);
  void to_settle(JobPointer job);
  void to_service(JobPointer job);
  void reply_to(Job& job, Reply reply);
  void note(GatewayNotice::Level level, std::string text, const Job* job = nullptr) const;

  const GatewayOptions options_;
  const MakeStore make_store_;
  Clock& clock_;
  const Notify notify_;
  Count count_;
  std::atomic<bool> ending_{false};   // takes no more requests
  std::atomic<bool> aborted_{false};  // gives up requests at the service
  std::atomic<bool> store_is_lost_{false};

  std::mutex mutex_;
  std::condition_variable for_store_;
  std::condition_variable for_service_;
  std::condition_variable for_patience_;
  std::condition_variable all_done_;
  std::deque<JobPointer> beginning_;
  std::deque<JobPointer> settling_;
  std::deque<JobPointer> waiting_;  // for a place at the service
  std::vector<Job*> at_store_;      // their threads wait for the store
  bool is_turn_of_new_ = false;     // at the store
  std::size_t jobs_ = 0;
  bool leaving_ = false;  // the threads end

  Endpoint endpoint_;
  std::vector<std::thread> threads_;
};

}  // namespace dovetail::http
