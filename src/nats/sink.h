// Publishes events to NATS: to JetStream, which confirms what it has stored, or to core NATS, which
// confirms nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/message/message.h"
#include "core/relay/sink.h"
#include "core/sinks/confirms.h"
#include "core/sinks/key_order.h"
#include "nats/connection.h"
#include "nats/options.h"

namespace dovetail::nats {

// submit() does not wait; bytes that the socket does not take at once go out during collect(). The
// end of an answer's subject is the number of its event. The subject lies
// under this connection's own inbox, so answers to old connections are not seen. The event id is
// the server's duplicate id, so a repeated event is stored once. An event that an operator replays
// gets a new duplicate id, or the server would drop it.
//
// The order of a key in JetStream: events go in windows, one at a time; the next takes all that has
// piled up. In a window each message names the one before it in its stream
// (Nats-Expected-Last-Msg-Id), so a stream that refuses one refuses those behind it. What was
// refused only for that goes again in the next window. If another publisher broke the chain, one
// event of a key is in flight for some seconds. Core NATS keeps no order under failure.
class NatsSink final : public Sink {
 public:
  NatsSink(Options options, Clock& clock);

  Status open() override;
  Status submit(Events events) override;
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override;
  bool keeps_order_on_failure() const override { return options_.jetstream; }
  bool blocks() const override { return false; }

 private:
  struct Flight {  // one batch
    std::uint64_t first_tag;
    std::vector<const Event*> events;
    TimePoint submitted_at;  // or when its silent events were last asked for
    std::uint64_t pings;     // sent with the batch; core NATS confirms it with that pong
  };

  // What of a window was refused because of another message, and why that one was.
  enum class Break : std::uint8_t { none, event, stream };

  void next_window();
  void fill_window();
  bool resend_broken();
  bool fits_chained(std::string_view stream) const;
  std::size_t header_bytes() const;
  void place(std::uint64_t tag);
  bool must_defer(const Event& event);
  void defer(std::uint64_t tag);
  bool is_apart() const { return clock_.now() < apart_until_; }
  void write_in_window(std::uint64_t tag, std::string_view subject);
  void settle(std::uint64_t tag, Outcome outcome);
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

  Options options_;
  Clock& clock_;
  std::optional<MessageWriter> writer_;
  Connection connection_;
  Connection::Handler handler_;
  std::size_t opened_ = 0;  // counts open(); chooses the next server

  ConfirmTracker tracker_;
  std::deque<Flight> flights_;
  KeyOrder order_;
  std::deque<std::uint64_t> queue_;    // submitted, not placed yet
  std::map<std::uint64_t, bool> out_;  // of the window, without an answer; true: chained
  std::vector<std::uint64_t> broken_;  // of the window, refused because of one before them
  std::set<std::uint64_t> unchained_;  // of broken_, too large with one more header
  Break break_ = Break::none;          // what else happened in the window
  bool is_learning_ = false;           // the window asks for the streams of topics
  std::set<std::string, std::less<>> learning_;  // these topics
  std::vector<std::uint64_t> deferred_;          // to the next window
  std::set<std::uint64_t> deferred_keys_;
  std::map<std::string, std::string, std::less<>> streams_;   // by topic
  std::map<std::string, std::string, std::less<>> last_ids_;  // of the window, by stream
  std::string expected_id_;  // of the message before message_; empty: any
  TimePoint apart_until_{};  // until then no chains
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
