// Publishes events to NATS: to JetStream, which confirms what it has stored, or to core NATS, which
// confirms nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/message/message.h"
#include "core/relay/sink.h"
#include "core/sinks/confirms.h"
#include "nats/connection.h"
#include "nats/options.h"

namespace dovetail::nats {

// A batch is one write. submit() does not wait; bytes that the socket does not take at once go out
// during collect(). The end of an answer's subject is the number of its event. The subject lies
// under this connection's own inbox, so answers to old connections are not seen. The event id is
// the server's duplicate id, so a repeated event is stored once. An event that an operator replays
// gets a new duplicate id, or the server would drop it.
class NatsSink final : public Sink {
 public:
  NatsSink(SinkOptions options, Clock& clock);

  Status open() override;
  Status submit(Events events) override;
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override;
  bool keeps_order_on_failure() const override { return false; }
  bool blocks() const override { return false; }

 private:
  struct Flight {  // one batch
    std::uint64_t first_tag;
    std::vector<const Event*> events;
    TimePoint submitted_at;
    std::uint64_t pings;  // sent with the batch; core NATS confirms it with that pong
    bool probed = false;
  };

  std::string why_refused(const Event& event, std::string_view subject);
  void append(std::uint64_t tag, std::string_view subject);
  std::string_view subject_of(const Event& event, std::string& scratch) const;

  Status pump(Duration timeout);
  void on_frame(const Frame& frame);
  void on_answer(std::uint64_t tag, const Frame& frame);
  void on_refused_subject(std::string_view error_text);
  void on_probe(std::uint64_t number, const Frame& frame);
  void probe(std::uint64_t tag, bool nobody_took_it);
  void probe_silent_events();
  const Event* event_of(std::uint64_t tag) const;

  SinkOptions options_;
  Clock& clock_;
  std::optional<MessageWriter> writer_;
  Connection connection_;
  Connection::Handler handler_;
  std::size_t opened_ = 0;  // counts open(); chooses the next server

  ConfirmTracker tracker_;
  std::deque<Flight> flights_;
  std::uint64_t pings_ = 0;

  // Subjects for which the server is asked whether any stream takes them.
  struct Probe {
    std::string subject;
    std::vector<std::uint64_t> tags;         // no stream took them
    std::vector<std::uint64_t> silent_tags;  // no answer came about them
  };
  std::map<std::uint64_t, Probe> probes_;  // by number
  std::uint64_t probes_made_ = 0;
  std::optional<Error> lost_;  // why this connection cannot be used any more

  Arena arena_;
  Message message_;
  std::string duplicate_id_;  // of message_; ':' and the number of replays follow the id
  std::string subject_scratch_;
};

}  // namespace dovetail::nats
