// Compares an outbox with an inbox or a topic.
#include "assembly/reconcile.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "commands/command_line.h"
#include "commands/commands.h"
#include "commands/output.h"
#include "config/units.h"
#include "core/event/time_text.h"
#include "host/host.h"
#include "reports/reconcile_report.h"

namespace dovetail::app {

using namespace assembly;
namespace {

struct ReconcileOptions {
  std::string outbox;
  std::string inbox;
  std::string topic;  // STORE/TOPIC
  std::string consumer;
  std::string relay;
  std::string from;
  std::string to;
  std::string late_after;
  std::string on_the_way = "5m";
  std::string report;
  bool has_other_sources = false;
  std::uint64_t findings_max = 1000;
};

Expected<std::optional<WallTime>> time_of(const std::string& text, const std::string& option) {
  if (text.empty()) return std::optional<WallTime>{};
  const std::optional<WallTime> time = parse_time(text);
  if (time) return time;
  return refuse(Exit::usage, option + ": '" + printable(text, 60) +
                                 "' is not a time; use RFC 3339, such as 2026-01-31T09:05:00Z");
}

Expected<ReconcileRequest> request_of(const ReconcileOptions& options) {
  ReconcileRequest request;
  request.outbox = options.outbox;
  request.inbox = options.inbox;
  request.consumer = options.consumer;
  request.relay = options.relay;
  request.has_other_sources = options.has_other_sources;
  request.findings_max = options.findings_max;
  if (options.inbox.empty() == options.topic.empty())
    return refuse(Exit::usage, "name the receiver: --inbox STORE or --topic STORE/TOPIC");
  if (!options.topic.empty()) {
    const std::size_t slash = options.topic.find('/');
    if (slash == std::string::npos || slash == 0 || slash + 1 == options.topic.size())
      return refuse(Exit::usage, "--topic: '" + printable(options.topic, 60) +
                                     "' is not STORE/TOPIC, such as bus/orders.events");
    request.topic_store = options.topic.substr(0, slash);
    request.topic = options.topic.substr(slash + 1);
  }
  const auto from = time_of(options.from, "--from");
  if (!from) return tl::unexpected(from.error());
  const auto to = time_of(options.to, "--to");
  if (!to) return tl::unexpected(to.error());
  request.from = *from;
  request.to = *to;
  if (from->has_value() && to->has_value() && **from >= **to)
    return refuse(Exit::usage, "--from must be before --to");
  if (!options.late_after.empty()) {
    const auto late = duration_of(options.late_after, "--late-after");
    if (!late) return tl::unexpected(late.error());
    request.late_after = *late;
  }
  const auto on_the_way = duration_of(options.on_the_way, "--on-the-way");
  if (!on_the_way) return tl::unexpected(on_the_way.error());
  request.on_the_way = *on_the_way;
  return request;
}

// One line that is written again and again.
class ProgressLine {
 public:
  ProgressLine() : is_shown_(::isatty(STDERR_FILENO) == 1) {}
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() {
    if (is_written_) std::fputs("\r\x1b[K", stderr);
  }

  bool show(const ReconcileProgress& progress) {
    const TimePoint now = system_clock().now();
    if (!is_shown_ || now - written_at_ < std::chrono::milliseconds(200)) return true;
    written_at_ = now;
    is_written_ = true;
    std::string line = std::string(progress.doing) + ": " + config::human_count(progress.read);
    if (progress.of != 0)
      line += " of about " + config::human_count(std::max(progress.of, progress.read)) + " (" +
              std::to_string(100 * progress.read / std::max(progress.of, progress.read)) + " %)";
    std::fputs(("\r" + line + "\x1b[K").c_str(), stderr);
    return true;
  }

 private:
  const bool is_shown_;
  bool is_written_ = false;
  TimePoint written_at_{};
};

Answer reconcile_command(const CommandContext& context, const ReconcileOptions& options) {
  const auto request = request_of(options);
  if (!request) return tl::unexpected(request.error());
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  for (const config::StoreConfig& store : config->stores) {
    const bool is_used = store.name == request->outbox || store.name == request->inbox ||
                         store.name == request->topic_store;
    if (!is_used) continue;
    if (const auto checked = check_secrets(store); !checked) return tl::unexpected(checked.error());
  }
  Result<ReconcileReport> report = [&] {
    ProgressLine line;
    return reconcile_stores(*config, *request, system_clock(),
                            [&](const ReconcileProgress& progress) { return line.show(progress); });
  }();
  if (!report) return refuse(report.error());
  const Json document = json_of(*report, *request);
  if (!options.report.empty())
    DOVETAIL_OR_REFUSE(write_page(options.report, page_of(*report, document)));
  if (context.json) {
    print_json(document);
  } else {
    print(text_of(*report, document));
    if (!options.report.empty()) print("report     " + options.report + "\n");
  }
  const reconcile::Counts& counts = report->outcome.counts;
  return counts.missing + counts.extra + counts.altered == 0 ? Exit::ok : Exit::negative;
}

}  // namespace

void add_reconcile(Command& app) {
  auto options = std::make_shared<ReconcileOptions>();
  Command sub = app.command(
      "reconcile", "Compare an outbox with a consumer's inbox, or with a topic of Kafka",
      "Names every event that is missing, extra, altered or late. Parked, waiting and skipped\n"
      "events are counted apart. Only the time that both sides retain is judged.\n"
      "Ends with 0 if nothing is missing, extra or altered, and with 1 otherwise.\n\n"
      "  dovetail reconcile --outbox orders --inbox inventory --consumer stock\n"
      "  dovetail reconcile --outbox orders --inbox inventory --from 2026-01-30T00:00:00Z \\\n"
      "                     --to 2026-01-31T00:00:00Z --late-after 1m --report january-30.html\n"
      "  dovetail reconcile --outbox orders --topic bus/order.events",
      [options](const CommandContext& context) { return reconcile_command(context, *options); });
  sub.option("--outbox", options->outbox, "Store whose outbox is compared").required();
  const Option inbox = sub.option("--inbox", options->inbox, "Store with the consumer's inbox");
  sub.option("--topic", options->topic, "A topic instead, as STORE/TOPIC").excludes(inbox);
  sub.option("--consumer", options->consumer, "Consumer, or one of its handlers");
  sub.option("--relay", options->relay, "Relay that reads the outbox, if several lead there");
  sub.option("--from", options->from, "Judge events written at this time or later, RFC 3339");
  sub.option("--to", options->to, "Judge events written before this time, RFC 3339");
  sub.option("--late-after", options->late_after, "Report what was received later than this");
  sub.option("--on-the-way", options->on_the_way,
             "Behind a broker, younger events may still be on their way to the consumer")
      .shows_default();
  sub.flag("--other-sources", options->has_other_sources,
           "The receiver also gets events of other outboxes: do not report them as extra");
  sub.option("--findings", options->findings_max, "How many findings of each kind are listed")
      .shows_default()
      .range(0, 1000000);
  sub.option("--report", options->report, "Also write a page for an auditor to this file");
}

}  // namespace dovetail::app
