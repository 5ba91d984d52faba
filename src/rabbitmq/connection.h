// One connection to RabbitMQ: log-in, heartbeats, frames in and out, and calls that wait for an
// answer. rabbitmq-c encodes and decodes. Reading and writing is done here, because its publish has
// no deadline and can block as long as the server throttles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "core/handle.h"
#include "dovetail/result.h"
#include "host/stream.h"
#include "rabbitmq/options.h"
#include "rabbitmq/protocol/frame_guard.h"

struct amqp_connection_state_t_;
struct amqp_frame_t_;

namespace dovetail::rabbitmq {

// What rabbitmq-c has decoded of a frame; T is the type of its method.
const void* method_bytes(const amqp_frame_t_& frame);
template <class T>
const T& method_of(const amqp_frame_t_& frame) {
  return *static_cast<const T*>(method_bytes(frame));
}

// The server's answer to a call.
struct Answer {
  int refused = 0;  // the code with which the server closed the channel; 0: success
  std::string text{};
  std::uint32_t messages = 0;  // of a declared queue
  std::uint32_t consumers = 0;
};

// One thread at a time. Its own thread sends heartbeats, even while nobody calls. After an error it
// cannot be used any more. All errors are `unavailable`.
class Connection {
 public:
  // Gets every frame of a channel that does not answer a call. It may send on the connection,
  // nothing else.
  using Handler = std::function<Status(const amqp_frame_t_& frame)>;

  // unavailable: not reached or refused; the text says what to check.
  static Result<std::unique_ptr<Connection>> open(const Options& options, std::string_view role,
                                                  Clock& clock, Handler handler);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  // Logs out, and waits until the server has requeued unacknowledged messages.
  void close(Duration timeout);

  // Sends a method and waits for the answer `reply`, or until the channel closes.
  Result<Answer> call(std::uint16_t channel, std::uint32_t method, void* decoded,
                      std::uint32_t reply);
  // Opens a channel. unavailable: the server closed the connection.
  Status open_channel(std::uint16_t channel);

  void send(std::uint16_t channel, std::uint32_t method, void* decoded);
  // Sends whole frames. Leaves `frames` empty, with its memory.
  void send(std::string& frames);
  std::size_t unsent() const;
  // Writes without waiting, and reads nothing.
  Status push();

  // Writes without waiting, and passes received frames to the handler. Waits at most `timeout` for
  // the first frame; wake() ends the wait.
  Status pump(Duration timeout);
  void wake() { stream_.wake(); }  // any thread

  bool blocked() const { return blocked_since_.has_value(); }
  Duration blocked_for() const;
  const std::string& blocked_reason() const { return blocked_reason_; }
  std::size_t frame_bytes_max() const { return frame_bytes_max_; }

 private:
  struct Waiting {  // waits for the answer to a call
    std::uint16_t channel;
    std::uint32_t reply;
    std::optional<Answer> answer{};
  };
  static void destroy(amqp_connection_state_t_* state);

  Connection(const Options& options, Clock& clock, Handler handler);
  Status greet(std::string_view role);
  Status log_in(std::string_view role);
  Status tune();
  Status await(std::uint16_t channel, std::uint32_t reply, std::string_view what, Duration timeout);
  Status write_some();
  Result<bool> exchange_some();
  void beat();
  Status take(std::string_view bytes);
  Status decode(std::string_view bytes);
  Status dispatch(const amqp_frame_t_& frame);
  Status dispatch_control(const amqp_frame_t_& frame);
  bool is_awaited(const amqp_frame_t_& frame);
  void start_heartbeats();

  Options options_;
  Clock& clock_;
  Handler handler_;
  Handle<amqp_connection_state_t_, destroy> state_;
  net::Stream stream_;
  FrameGuard guard_;
  std::vector<char> input_;
  std::optional<Waiting> waiting_;
  std::size_t frame_bytes_max_ = 4096;
  Duration heartbeat_{0};
  TimePoint heard_at_{};
  std::optional<TimePoint> blocked_since_;
  std::string blocked_reason_;
  bool closing_ = false;
  std::string mechanisms_;  // from the server's greeting
  std::uint32_t server_frame_max_ = 0;
  std::uint16_t server_heartbeat_ = 0;

  // Held during each use of the connection. The heartbeat thread uses the connection only while
  // nobody else does.
  mutable std::recursive_mutex mutex_;
  std::string output_;
  std::size_t written_ = 0;  // of output_
  TimePoint wrote_at_{};
  std::jthread heart_;
};

// Creates a durable queue. A quorum queue gets a single active consumer, because it ignores
// exclusive consumers. Refused with 406: a queue of another kind exists.
Result<Answer> declare_queue(Connection& connection, std::uint16_t channel, std::string_view queue,
                             const std::string& queue_type);

}  // namespace dovetail::rabbitmq
