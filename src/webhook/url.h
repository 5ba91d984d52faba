// The url to which events are posted; its path and query may have fields of the event.
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
  // rejected: not a url of http or https, with a user or password, or with a misplaced field.
  static Result<UrlTemplate> parse(std::string_view url);

  // Appends the url for `event` to `out`. Fields are percent-encoded, so they add no path segments.
  // rejected: a field in the path is empty or leads outside it ("..").
  Status fill(const Event& event, Arena& arena, std::string& out) const;

  bool has_fields() const { return !pieces_.empty(); }
  bool is_https() const { return https_; }
  const std::string& host() const { return host_; }  // an IPv6 address has brackets
  const std::string& base() const { return base_; }  // "https://host:port"; logs show only this

 private:
  struct Piece {
    std::string literal;  // the text before the field
    EventTemplate field;
    std::string name;
    bool in_path;
  };
  bool https_ = false;
  std::string host_;
  std::string base_;
  std::vector<Piece> pieces_;
  std::string rest_;  // the text after the last field
};

}  // namespace dovetail::http
