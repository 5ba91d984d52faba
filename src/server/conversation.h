// What one client says on one connection, request by request, and what is answered: bytes in, bytes
// out. No socket and no clock.
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

// What the conversations of an endpoint have in common.
struct Talks {
  const EndpointOptions& options;
  RequestHandler& handler;
  Clock& clock;
  std::size_t receiving_bytes = 0;  // of bodies that are not whole
  std::size_t requests = 0;         // begun, and not gone
};

// One thread at a time.
class Conversation {
 public:
  enum class Phase : std::uint8_t {
    idle,     // between two requests
    head,     // a part of it came
    body,     // likewise
    waiting,  // for answer(); nothing is taken meanwhile
    saying,   // the answer goes out; nothing is taken meanwhile
    over,     // nothing more is taken or said behind out()
  };

  // `owner`: of the requests, which name it.
  Conversation(Talks& talks, ClientConnection* owner, Peer peer);
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;
  ~Conversation();

  Phase phase() const { return phase_; }
  bool wants_bytes() const { return phase_ < Phase::waiting; }
  // Over, while the client may still be sending: what it sends is to be read for a moment, or the
  // answer is lost with it.
  bool is_cut_short() const { return is_cut_short_; }

  // REQUIRES: wants_bytes().
  void take(std::string_view bytes);
  void answer(const Reply& reply);  // REQUIRES: waiting
  // Everything of out() is sent: the next request may come, or has come already.
  void said();
  // The time for the head or the body is over.
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
