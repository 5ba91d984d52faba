#include "documents/orders.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "config/stores.h"
#include "core/event/time_text.h"

namespace dovetail::app {

Json json_of(const std::string& relay, std::string_view action, const ActionReport& report) {
  Json consequences = Json::array();
  for (const Consequence& one : report.consequences)
    consequences.push_back({{"kind", one.kind}, {"text", one.text}});
  return {{"relay", relay},
          {"action", action},
          {"dry_run", !report.is_done},
          {"consequences", consequences},
          {"pending", report.pending},
          {"parked", report.parked},
          {"waiting", report.waiting},
          {"sent_again", report.sent_again},
          {"skipped", report.skipped}};
}

Expected<SeekTo> parse_seek(const std::string& text) {
  if (text == "beginning") return SeekTo{SeekTo::Kind::beginning};
  if (text == "now") return SeekTo{SeekTo::Kind::now};
  std::int64_t position = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), position);
  if (failed == std::errc() && end == text.data() + text.size() && position > 0)
    return SeekTo{SeekTo::Kind::position, position};
  if (const auto time = parse_time(text)) return SeekTo{SeekTo::Kind::time, 0, *time};
  return refuse(Exit::usage,
                "the new place is \"beginning\", \"now\", the number of an event as 'dovetail "
                "events' shows it, or a time such as 2026-01-31T09:05:00Z");
}

Expected<bool> check_new_name(const config::Config& config, const std::string& name,
                              const std::string& new_name) {
  if (config.find_consumer(name) != nullptr)
    return refuse(Exit::rejected, "\"" + name +
                                      "\" is a consumer, whose inbox knows what it applied by this "
                                      "name; a consumer keeps its name");
  if (!config::is_plain_name(new_name))
    return refuse(Exit::usage, "the new name has 1 to 64 letters, digits, '-', '_' and '.'");
  return true;
}

}  // namespace dovetail::app
