#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "assembly/database.h"
#include "commands/command_line.h"
#include "commands/commands.h"
#include "commands/output.h"
#include "core/event/time_text.h"
#include "core/handle.h"
#include "core/message/routing.h"
#include "host/host.h"

namespace dovetail::app {

using namespace assembly;
namespace {

struct PublishOptions {
  std::string store;
  std::string aggregate_type;
  std::string key;
  std::string type;
  std::optional<std::string> payload;
  std::string payload_file;  // "-": stdin
  std::string content_type = "application/json";
  std::string topic;
  std::string id;
  std::int64_t version = 0;
  std::vector<std::string> headers;  // "name=value"
  std::string deliver_at;            // RFC 3339; empty: at once
};

// Reads at most the limit, so that an endless input causes an error and does not fill memory. The
// error gives the size of a file; the size of a stream is unknown.
Failure too_large(std::FILE* file, std::size_t bytes_max) {
  struct stat found{};
  const bool is_file = ::fstat(::fileno(file), &found) == 0 && S_ISREG(found.st_mode);
  return Failure{Exit::rejected,
                 "the payload has " +
                     (is_file ? std::to_string(found.st_size) + " bytes"
                              : "more than " + std::to_string(bytes_max) + " bytes") +
                     ", the limit is " + std::to_string(bytes_max) +
                     "; send a reference instead, or raise payload_max of the store"};
}

Expected<std::string> read_payload(const PublishOptions& options, std::size_t bytes_max) {
  if (options.payload) return *options.payload;
  if (options.payload_file.empty()) {
    return refuse(Exit::usage,
                  "the payload is missing: use --payload, --payload-file or \"-\" for stdin");
  }
  Handle<std::FILE, std::fclose> opened;
  std::FILE* file = stdin;
  if (options.payload_file != "-") {
    opened.reset(std::fopen(options.payload_file.c_str(), "rb"));
    file = opened.get();
    if (file == nullptr) {
      return refuse(Exit::rejected, options.payload_file + ": cannot read the file (" +
                                        std::strerror(errno) + "); check the path");
    }
  }
  std::string payload;
  char buffer[64 << 10];
  while (payload.size() <= bytes_max) {
    const std::size_t got = std::fread(buffer, 1, sizeof buffer, file);
    payload.append(buffer, got);
    if (got < sizeof buffer) break;
  }
  if (std::ferror(file) != 0) {
    return refuse(Exit::rejected, "cannot read the payload (" + std::string(std::strerror(errno)) +
                                      "); check the file");
  }
  if (payload.size() > bytes_max) return tl::unexpected(too_large(file, bytes_max));
  return payload;
}

Expected<std::vector<Header>> parse_headers(const std::vector<std::string>& written) {
  std::vector<Header> headers;
  for (const std::string& one : written) {
    const std::size_t equals = one.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return refuse(Exit::rejected,
                    "header \"" + printable(one, 60) + "\" is malformed; write it as name=value");
    }
    headers.push_back({one.substr(0, equals), one.substr(equals + 1)});
  }
  return headers;
}

// The same rule as dovetail.publish() in PostgreSQL: "application/json", "application/x+json", also
// with parameters.
bool is_json_type(std::string_view content_type) {
  std::string type(content_type.substr(0, content_type.find(';')));
  while (type.ends_with(' ') || type.ends_with('\t')) type.pop_back();
  for (char& c : type) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return type.ends_with("/json") || type.ends_with("+json");
}

// Otherwise the next reader would fail without a clear reason.
Status check_json(const NewEvent& event) {
  if (!is_json_type(event.content_type) || nlohmann::json::accept(event.payload)) return {};
  return fail(Errc::rejected, "the content type is " + printable(event.content_type, 100) +
                                  ", but the payload is not valid JSON; check it, or use "
                                  "--content-type text/plain");
}

Expected<std::optional<WallTime>> parse_deliver_at(const PublishOptions& options,
                                                   const config::StoreConfig& store) {
  if (options.deliver_at.empty()) return std::optional<WallTime>();
  const auto time = parse_time(options.deliver_at);
  if (!time) {
    return refuse(Exit::rejected, "--deliver-at \"" + printable(options.deliver_at, 60) +
                                      "\" is not a time; write it as 2026-01-31T09:00:00Z");
  }
  if (!store.type().has_delayed_events) {
    return refuse(Exit::rejected, "store " + store.name + " is " +
                                      std::string(config::to_string(store.scheme)) +
                                      ", which cannot delay events; remove --deliver-at");
  }
  return time;
}

// If no mailbox behind this store accepts the topic, the event would be parked later. Refuse it
// here, where the caller sees it. A store without a relay accepts every topic.
Status check_topic(const config::Config& config, const config::StoreConfig& store,
                   const NewEvent& event) {
  std::string tried;
  std::string accepted;
  for (const config::RelayConfig& relay : config.relays) {
    if (relay.from != store.name) continue;
    const config::StoreConfig* to = config.find_store(relay.to);
    if (to == nullptr || to->topics.empty()) return {};
    const auto topics = TopicTemplate::parse(relay.topic);
    if (!topics) return fail(topics.error());
    Event view;
    view.topic = event.topic;
    view.aggregate_type = event.aggregate_type;
    view.aggregate_id = event.aggregate_id;
    view.type = event.type;
    view.content_type = event.content_type;
    Arena arena;
    tried = topics->route(view, arena);
    for (const std::string& topic : to->topics) {
      if (topic == tried) return {};
      accepted += (accepted.empty() ? "" : ", ") + topic;
    }
  }
  if (tried.empty()) return {};
  return fail(Errc::rejected, "no store accepts the topic \"" + printable(tried, 100) +
                                  "\"; accepted are: " + accepted +
                                  "; check --topic, or 'topics' of the store in the config");
}

Answer publish(const CommandContext& context, const PublishOptions& options) {
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  const auto store = choose_store(*config, options.store);
  if (!store) return tl::unexpected(store.error());
  EventLimits limits;
  // A broker need not have a limit; it is refused below.
  if ((*store)->payload_bytes_max > 0) limits.payload_bytes_max = (*store)->payload_bytes_max;
  const auto payload = read_payload(options, limits.payload_bytes_max);
  if (!payload) return tl::unexpected(payload.error());
  const auto headers = parse_headers(options.headers);
  if (!headers) return tl::unexpected(headers.error());

  NewEvent event;
  event.aggregate_type = options.aggregate_type;
  event.aggregate_id = options.key;
  event.type = options.type;
  event.payload = *payload;
  event.content_type = options.content_type;
  event.headers = *headers;
  event.topic = options.topic;
  event.aggregate_version = options.version;
  event.id = new_event_id();
  if (!options.id.empty()) {
    const auto id = EventId::parse(options.id);
    if (!id) return refuse(id.error());
    event.id = *id;
  }
  DOVETAIL_OR_REFUSE(validate(event, limits));
  DOVETAIL_OR_REFUSE(check_topic(*config, **store, event));
  DOVETAIL_OR_REFUSE(check_json(event));
  const auto deliver_at = parse_deliver_at(options, **store);
  if (!deliver_at) return tl::unexpected(deliver_at.error());
  const auto id = database_of(**store)->publish(event, limits, *deliver_at);
  if (!id && id.error().code == Errc::in_doubt) {
    return refuse_in(**store,
                     {Errc::in_doubt, id.error().text +
                                          "; it is unknown whether the event was published; "
                                          "to repeat it safely, add --id " +
                                          event.id->to_string()});
  }
  if (!id) return refuse_in(**store, id.error());
  if (context.json) {
    print_json({{"id", id->to_string()}, {"store", (*store)->name}});
  } else {
    print("published " + id->to_string() + "\n");
  }
  return Exit::ok;
}

}  // namespace

void add_publish(Command& app) {
  const auto options = std::make_shared<PublishOptions>();
  Command sub = app.command(
      "publish", "Put one event into the outbox of a store, in its own transaction",
      "For tests and for scripts. A service publishes inside its business transaction instead, "
      "with the\n"
      "library or with the INSERT in examples/publish.py.\n\n"
      "  dovetail publish --store orders --aggregate-type orders --key 17 --type OrderPlaced \\\n"
      "                   --payload '{\"total\": 3}' --header tenant=blue\n"
      "  generate | dovetail publish --store orders --aggregate-type orders --key 17 --type Report "
      "-\n\n"
      "With --id it is safe to repeat a publish: the same id with the same content is accepted "
      "and stored\n"
      "once; with other content it is rejected (exit 5).",
      [options](const CommandContext& context) { return publish(context, *options); });
  sub.option("--store", options->store, "Name of the store in the config file");
  sub.option("--aggregate-type", options->aggregate_type,
             "The kind of object that the event is about")
      .required();
  sub.option("--key", options->key,
             "The id of the object: events of one key keep their order. Empty: no order");
  sub.option("--type", options->type, "What happened, for example OrderPlaced").required();
  Option payload = sub.option("--payload", options->payload, "The payload");
  Option file = sub.option("--payload-file", options->payload_file, "A file with the payload");
  Option from_stdin =
      sub.option("stdin", options->payload_file, "\"-\" reads the payload from stdin")
          .without_type()
          .one_of({"-"});
  payload.excludes(file).excludes(from_stdin);
  file.excludes(from_stdin);
  sub.option("--content-type", options->content_type,
             "Type of the payload; a JSON type requires valid JSON")
      .shows_default();
  sub.option("--topic", options->topic, "The topic; default: the relay's template");
  sub.option("--id", options->id, "A UUID that makes a repeated publish safe");
  sub.option("--aggregate-version", options->version, "The aggregate's version, if it has one");
  sub.option("--deliver-at", options->deliver_at,
             "Publish at this time, for example 2026-01-31T09:00:00Z; PostgreSQL only");
  sub.option("--header", options->headers, "name=value; may be repeated").repeated();
}

}  // namespace dovetail::app
