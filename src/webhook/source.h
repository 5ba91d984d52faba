// Receives events at an HTTP endpoint. It answers a request when its event is delivered or parked.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/relay/own_positions.h"
#include "core/relay/source.h"
#include "server/endpoint.h"
#include "webhook/options.h"
#include "webhook/signature.h"
#include "webhook/signed_forms.h"

namespace dovetail::http {

// rejected: for the same reasons as open(), without listening.
Status check(const SourceOptions& options);

// The sender makes events durable: unsettled requests get 503 or a closed connection when the
// process ends, and the sender repeats them. If one id comes twice at the same time, both wait for
// one result. After open(), unsettled events whose senders wait are read again. One thread at a
// time; the endpoint has its own.
class HttpSource final : public Source, public OwnPositions, private RequestHandler {
 public:
  HttpSource(SourceOptions options, Clock& clock);
  ~HttpSource() override;  // answers waiting requests with 503

  void begin_after(std::int64_t position) override;
  Status open() override;
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override;
  Status settle(const Batch& batch, std::span<const Settled> fates) override;
  Status flush() override { return {}; }  // settle() has answered the senders

  std::uint16_t port() const { return endpoint_.port(); }  // the port it listens at, after open()
  std::uint64_t taken() const;  // requests that wait or waited for their event; any thread

 private:
  struct Waiter;
  // An event from its first request until it is settled.
  struct Entry {
    std::string body{};
    Batch batch{};  // the event, with its payload in `body`
    std::size_t bytes = 0;
    std::vector<Waiter*> waiters{};
    bool given = false;  // read, and not settled
    Event& event() { return batch.events()[0]; }
  };
  // A request that waits for its event.
  struct Waiter {
    Request* request;
    Entry* entry;
    TimePoint until;
    std::list<Waiter>::iterator place{};
  };

  Status prepare();
  std::optional<Reply> begin(const Request& request) override;
  std::optional<Reply> take(Request& request) override;
  std::optional<Reply> check_signature(const Request& request, std::string_view id);
  EventId signed_id(std::string_view webhook_id) const;
  Result<std::string> topic_of(std::string_view target) const;
  std::optional<Reply> make_entry(Request& request, std::string_view id, Entry& entry);
  std::optional<Reply> enqueue(Request& request, std::unique_ptr<Entry> entry);
  bool is_full(std::size_t more_bytes) const;
  void wait_for(Request& request, Entry& entry);
  void answer(Waiter& waiter, Reply reply);
  void expire();
  void drop(Entry& entry);

  SourceOptions options_;
  Clock& clock_;
  std::optional<MessageReader> reader_;
  WebhookSecrets secrets_;    // of the endpoint's thread
  SignedForms signed_forms_;  // of the endpoint's thread, too

  mutable std::mutex mutex_;  // guards everything below
  std::condition_variable_any came_;
  std::map<EventId, std::unique_ptr<Entry>> entries_;
  std::deque<Entry*> queue_;   // not read yet, in order of arrival
  std::deque<Entry*> given_;   // read and not settled, in read order
  std::list<Waiter> waiters_;  // longest waiting first
  std::size_t bytes_ = 0;
  std::int64_t last_position_ = 0;
  std::uint64_t taken_ = 0;
  bool ending_ = false;

  Endpoint endpoint_;  // destroyed first
};

}  // namespace dovetail::http
