#include "server/conversation.h"

#include <utility>

#include "core/check.h"
#include "server/reply_text.h"

namespace dovetail::http {

Conversation::Conversation(Talks& talks, ClientConnection* owner, Peer peer)
    : talks_(talks), owner_(owner), peer_(std::move(peer)) {}

Conversation::~Conversation() { drop_request(); }

void Conversation::drop_request() {
  if (request_ == nullptr) return;
  if (!request_->is_whole_) talks_.receiving_bytes -= request_->body.size();
  request_.reset();
  --talks_.requests;
}

void Conversation::take(std::string_view bytes) {
  DOVETAIL_CHECK(wants_bytes());
  in_.append(bytes);
  advance();
}

void Conversation::advance() {
  while (true) {
    if (phase_ == Phase::idle || phase_ == Phase::head) {
      if (!read_head()) return;
    } else if (phase_ == Phase::body) {
      if (!read_body()) return;
    } else {
      return;
    }
  }
}

// Whether there is more to do.
bool Conversation::read_head() {
  // RFC 9112, 2.2: skips one empty line before a request, not more.
  if (may_skip_line_ && in_.starts_with("\r\n")) {
    in_.erase(0, 2);
    may_skip_line_ = false;
  }
  if (in_.empty()) return false;
  phase_ = Phase::head;
  HeadEnd end = find_head_end(in_, looked_at_);
  looked_at_ = in_.size();
  if (end.fault) {
    refuse(*end.fault);
    return false;
  }
  const std::size_t most = talks_.options.header_bytes_max;
  if (end.bytes > most || (end.bytes == 0 && in_.size() > most)) {
    const bool is_line = in_.find('\n') > most;
    refuse({is_line ? 414U : 431U, is_line ? "the target is too long"
                                           : "the headers are longer than the limit of " +
                                                 std::to_string(most) + " bytes"});
    return false;
  }
  if (end.bytes == 0) return false;
  begin(end.bytes);
  return true;
}

void Conversation::begin(std::size_t head_bytes) {
  request_ = std::make_unique<Request>();
  ++talks_.requests;
  Request& request = *request_;
  request.connection_ = owner_;
  request.head_bytes_ = in_.substr(0, head_bytes);
  in_.erase(0, head_bytes);
  looked_at_ = 0;
  may_skip_line_ = true;
  if (const auto fault = parse_head(request.head_bytes_, head_)) return refuse(*fault);
  request.method = head_.method;
  request.uri = head_.target;
  request.target = head_.target.substr(0, head_.target.find('?'));
  request.headers = std::move(head_.headers);
  request.peer = peer_.text;
  request.is_from_proxy = peer_.is_proxy;
  request.came_at = talks_.clock.now();
  body_ = BodyReader(head_);
  phase_ = Phase::body;
  if (std::optional<Reply> reply = talks_.handler.begin(request)) return say(*reply);
  if (!head_.is_chunked && head_.length > talks_.options.body_bytes_max) {
    request.body_too_large = true;
    return finish_body();
  }
  if (head_.waits_for_continue && head_.has_body() && in_.empty())
    out_.append("HTTP/1.1 100 Continue\r\n\r\n");
}

bool Conversation::read_body() {
  std::string_view rest = in_;
  std::string carried;
  const auto fault = body_.take(rest, carried);
  in_.erase(0, in_.size() - rest.size());
  if (fault) {
    refuse(*fault);
    return false;
  }
  keep_body(carried);
  if (!body_.is_done() && !request_->body_too_large && !request_->no_room) return false;
  finish_body();
  return true;
}

void Conversation::keep_body(std::string_view bytes) {
  Request& request = *request_;
  if (request.body.size() + bytes.size() > talks_.options.body_bytes_max)
    request.body_too_large = true;
  if (talks_.receiving_bytes + bytes.size() > talks_.options.waiting_bytes_max)
    request.no_room = true;
  if (request.body_too_large || request.no_room) {
    talks_.receiving_bytes -= request.body.size();
    std::string().swap(request.body);
    return;
  }
  talks_.receiving_bytes += bytes.size();
  request.body.append(bytes);
}

void Conversation::finish_body() {
  Request& request = *request_;
  talks_.receiving_bytes -= request.body.size();
  request.is_whole_ = true;
  phase_ = Phase::waiting;
  std::optional<Reply> reply = talks_.handler.take(request);
  if (reply) answer(*reply);
}

void Conversation::answer(const Reply& reply) {
  DOVETAIL_CHECK(phase_ == Phase::waiting);
  say(reply);
}

void Conversation::say(const Reply& reply) {
  // The rest of an incomplete body would look like the next request.
  is_cut_short_ = !body_.is_done();
  if (is_cut_short_) head_.stays_open = false;
  out_.append(reply_bytes(reply, {head_.method == "HEAD", !head_.stays_open, talks_.clock.wall()}));
  drop_request();
  phase_ = Phase::saying;
}

void Conversation::refuse(const HeadFault& fault) {
  drop_request();
  head_ = RequestHead{};
  out_.append(reply_bytes({fault.status, fault.text + "; nothing was done"},
                          {false, true, talks_.clock.wall()}));
  head_.stays_open = false;
  is_cut_short_ = true;
  phase_ = Phase::saying;
}

void Conversation::give_up() {
  DOVETAIL_CHECK(wants_bytes());
  if (phase_ == Phase::idle) {
    phase_ = Phase::over;
    return;
  }
  refuse({408, phase_ == Phase::head ? "the head of the request did not arrive in time"
                                     : "the body of the request did not arrive in time"});
}

void Conversation::said() {
  out_.clear();
  if (phase_ != Phase::saying) return;
  if (!head_.stays_open) {
    phase_ = Phase::over;
    return;
  }
  phase_ = Phase::idle;
  if (in_.empty()) std::string().swap(in_);  // frees memory: a kept connection may be idle for long
  advance();
}

}  // namespace dovetail::http
