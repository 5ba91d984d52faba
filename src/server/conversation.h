// One client's requests on one connection and their answers: bytes in, bytes out. No socket and no
// clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "server/endpoint.h"
#include "server/request_body.h"
#include "server/request_head.h"

namespace dovetail::http {

// What all conversations of an endpoint share.
struct Talks {
  const EndpointOptions& options;
  RequestHandler& handler;
  Clock& clock;
  std::size_t receiving_bytes = 0;  // of incomplete bodies
  std::size_t requests = 0;         // begun and not finished
};

// One thread at a time.
class Conversation {
 public:
  enum class Phase : std::uint8_t {
    idle,     // between two requests
    head,     // part of it has arrived
    body,     // part of it has arrived
    waiting,  // waits for answer(); takes no bytes
    saying,   // sends the answer; takes no bytes
    over,     // ended; takes nothing and adds nothing to out()
  };

  // `owner`: the connection, which requests name.
  Conversation(Talks& talks, ClientConnection* owner, Peer peer);
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;
  ~Conversation();

  Phase phase() const { return phase_; }
  bool wants_bytes() const { return phase_ < Phase::waiting; }
  // Over while the client may still be sending. Read its bytes for a moment, or the answer is
  // lost.
  bool is_cut_short() const { return is_cut_short_; }

  // REQUIRES: wants_bytes().
  void take(std::string_view bytes);
  void answer(const Reply& reply);  // REQUIRES: waiting
  // All of out() is sent. The next request may come or have come already.
  void said();
  // The time for the head or the body has run out.
  void give_up();

  std::string& out() { return out_; }

 private:
  void advance();
  bool read_head();
  bool read_body();
  void begin(std::size_t head_bytes);
  void finish_body();
  void keep_body(std::string_view bytes);
  void say(const Reply& reply);
  void refuse(const HeadFault& fault);
  void drop_request();

  Talks& talks_;
  ClientConnection* owner_;
  Peer peer_;
  Phase phase_ = Phase::idle;
  bool is_cut_short_ = false;
  bool may_skip_line_ = true;
  std::string in_;
  std::size_t looked_at_ = 0;
  RequestHead head_;  // views into the request
  BodyReader body_;
  std::unique_ptr<Request> request_;
  std::string out_;
};

}  // namespace dovetail::http
