// Where events are posted to: a url, whose path and query may hold fields of the event.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/event/batch.h"
#include "core/message/event_template.h"
#include "dovetail/event.h"
#include "dovetail/result.h"

namespace dovetail::http {

// Any thread; immutable after parse().
class UrlTemplate {
 public:
  // rejected: no url of http or https, a user or password in it, or a field where none may be.
  static Result<UrlTemplate> parse(std::string_view url);

  // Appends the url for `event` to `out`. Fields are percent-encoded, so that none makes a new
  // segment. rejected: a field of the path is empty, or would lead out of it ("..").
  Status fill(const Event& event, Arena& arena, std::string& out) const;

  bool has_fields() const { return !pieces_.empty(); }
  bool is_https() const { return https_; }
  const std::string& host() const { return host_; }  // an IPv6 address stands in brackets
  const std::string& base() const { return base_; }  // "https://host:port", all that logs show

 private:
  struct Piece {
    std::string literal;  // before the field
    EventTemplate field;
    std::string name;
    bool in_path;
  };
  bool https_ = false;
  std::string host_;
  std::string base_;
  std::vector<Piece> pieces_;
  std::string rest_;  // behind the last field
};

}  // namespace dovetail::http
