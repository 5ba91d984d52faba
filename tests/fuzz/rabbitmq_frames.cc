// Frames from an AMQP server. They are the same however they are cut, and none makes rabbitmq-c
// recurse without end.
#include <amqp.h>
#include <amqp_framing.h>

#include <string>

#include "fuzz/fuzz.h"
#include "rabbitmq/protocol/frame_guard.h"
#include "rabbitmq/protocol/frames.h"

using namespace dovetail::rabbitmq;

namespace {

std::string frames_in(std::string_view bytes, std::size_t piece) {
  FrameGuard guard;
  const amqp_connection_state_t state = amqp_new_connection();
  std::string seen;
  bool is_wrong = false;
  while (!bytes.empty() && !is_wrong) {
    std::string_view rest = bytes.substr(0, piece);
    bytes.remove_prefix(rest.size());
    while (!rest.empty() && !is_wrong) {
      auto safe = guard.next(rest);
      is_wrong = !safe.has_value();
      while (!is_wrong && !safe->empty()) {
        amqp_frame_t frame{};
        const int consumed = amqp_handle_input(state, as_bytes(*safe), &frame);
        is_wrong = consumed < 0;
        if (is_wrong) break;
        FUZZ_REQUIRE(consumed > 0);
        safe->remove_prefix(static_cast<std::size_t>(consumed));
        if (frame.frame_type == 0) continue;
        seen += std::to_string(frame.frame_type) + "/" + std::to_string(frame.channel) + " ";
        if (frame.frame_type == AMQP_FRAME_BODY) seen += as_view(frame.payload.body_fragment);
      }
    }
  }
  amqp_destroy_connection(state);
  return seen;
}

}  // namespace

void check_input(std::string_view input) {
  if (input.empty()) return;
  const std::size_t piece = 1 + static_cast<unsigned char>(input.front()) % 16;
  input.remove_prefix(1);
  FUZZ_REQUIRE(frames_in(input, input.size() + 1) == frames_in(input, piece));
}

std::vector<std::string_view> seed_inputs() {
  using namespace std::string_literals;
  static const std::vector<std::string> kept = [] {
    std::string start = "\x03";
    amqp_connection_start_t greeting{};
    greeting.version_minor = 9;
    greeting.mechanisms = as_bytes("PLAIN");
    greeting.locales = as_bytes("en_US");
    append_method(start, 0, AMQP_CONNECTION_START_METHOD, &greeting);
    amqp_basic_deliver_t deliver{};
    deliver.delivery_tag = 1;
    deliver.exchange = as_bytes("x");
    std::string delivered = start;
    append_method(delivered, 1, AMQP_BASIC_DELIVER_METHOD, &deliver);
    delivered += "\2\0\1\0\0\0\x21\0\x3c\0\0\0\0\0\0\0\0\0\5\xa0\x80\4text"s;
    delivered += "\0\0\0\7\1hA\0\0\0\0\2id\xce"s;
    delivered += "\3\0\1\0\0\0\5hello\xce"s;
    append_heartbeat(delivered);
    return std::vector<std::string>{start, delivered, "\1AMQP\0\0\t\1"s,
                                    "\1\1\0\0\x7f\xff\xff\xff"s};
  }();
  return {kept.begin(), kept.end()};
}
