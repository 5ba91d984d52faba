// An accepted url template gives a url for any event, on the same host, and no field leaves its
// place.
#include <string>

#include "fuzz/fuzz.h"
#include "webhook/url.h"

using namespace dovetail;
using namespace dovetail::http;

// A template, then after a line break the value of every field.
void check_input(std::string_view input) {
  const std::size_t cut = std::min(input.find('\n'), input.size());
  const auto url = UrlTemplate::parse(input.substr(0, cut));
  if (!url) {
    FUZZ_REQUIRE(url.error().code == Errc::rejected && !url.error().text.empty());
    return;
  }
  FUZZ_REQUIRE(url->base().starts_with(url->is_https() ? "https://" : "http://"));
  FUZZ_REQUIRE(!url->host().empty());
  Event event;
  const std::string_view value = input.substr(std::min(cut + 1, input.size()));
  event.aggregate_type = event.aggregate_id = event.type = event.topic = value;
  event.content_type = "text/plain";
  Arena arena;
  std::string filled;
  if (!url->fill(event, arena, filled)) return;
  const auto again = UrlTemplate::parse(filled);
  FUZZ_REQUIRE(again.has_value() && !again->has_fields());
  FUZZ_REQUIRE(again->base() == url->base() && again->is_https() == url->is_https());
}

std::vector<std::string_view> seed_inputs() {
  return {"https://example.com/hooks/{aggregate_type}\norders",
          "http://[::1]:8080/a?x={aggregate_id}&y={type}\n..",
          "https://example.com/{topic}/{id}\n.",
          "https://u:p@example.com/",
          "https://{type}.example.com/",
          "http://127.0.0.1:99999/",
          "ftp://x/",
          "https://example.com/a{{b}}\n/../x?y#z%2e",
          "https://example.com"};
}
