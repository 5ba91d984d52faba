// An event as an HTTP request.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/event/batch.h"
#include "core/message/message.h"
#include "webhook/options.h"
#include "webhook/signature.h"
#include "webhook/url.h"

namespace dovetail::http {

// One request. Its memory is reused.
struct Posting {
  std::string url{};      // empty: the same url for every event
  std::string headers{};  // lines, each ended by a zero byte
  std::vector<std::size_t> header_starts{};
  std::string_view body{};  // of the event

  void clear();
  void add_header(std::string_view name, std::string_view value);
};

// One thread at a time.
class PostingWriter {
 public:
  static Result<PostingWriter> make(const SinkOptions& options);

  // rejected: HTTP cannot carry the event, or it is too large; the text says why.
  Status write(const Event& event, WallTime now, Posting& out);

  const UrlTemplate& url() const { return url_; }

 private:
  PostingWriter(UrlTemplate url, MessageWriter writer, WebhookSecrets secrets,
                std::string authorization, std::size_t payload_bytes_max);

  UrlTemplate url_;
  MessageWriter writer_;
  WebhookSecrets secrets_;
  std::string authorization_;
  std::size_t payload_bytes_max_;
  Arena arena_;
  Message message_;
};

// Why HTTP does not carry this header value unchanged; empty: it does.
std::string_view why_no_header_value(std::string_view value);
// Whether a header with this lower-case name has a meaning for HTTP or for us; events may then not
// carry it.
bool is_reserved_header(std::string_view lower_name);

}  // namespace dovetail::http
