#include "nats/consumer.h"

#include <algorithm>

namespace dovetail::nats {

namespace {

std::int64_t nanoseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
}

// A name of a stream or consumer is one token of a subject.
Status check_name(std::string_view what, const std::string& name) {
  const bool is_fine =
      why_no_subject(name).empty() && name.find_first_of("./\\") == std::string::npos;
  if (is_fine) return {};
  return fail(Errc::rejected, std::string(what) + " cannot be named '" + name +
                                  "'; use a name without dots, spaces, slashes or wildcards");
}

std::string list_of(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) list += (list.empty() ? "" : ",") + json_text(text);
  return "[" + list + "]";
}

std::vector<std::string> texts_of(const Json& array) {
  std::vector<std::string> texts;
  for (const Json& item : array.items()) texts.push_back(item.text());
  return texts;
}

bool same_set(std::vector<std::string> a, std::vector<std::string> b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

Result<std::string> find_stream(JetStream& jetstream, const Options& options) {
  if (!options.stream.empty()) return options.stream;
  if (options.subjects.empty())
    return fail(Errc::rejected, "the NATS source needs a stream or subjects; set one of them");
  const Result<std::vector<std::string>> names = jetstream.streams_of(options.subjects[0]);
  if (!names) return fail(names.error());
  if (names->size() == 1) return (*names)[0];
  const std::string& subject = options.subjects[0];
  if (names->empty())
    return fail(Errc::unavailable,
                "no stream stores the subject " + subject + "; create one, or check the subject");
  return fail(Errc::rejected,
              "several streams store the subject " + subject + "; set stream to one of them");
}

// The subjects of the stream. Creates a missing stream if the options allow it.
Result<std::vector<std::string>> stream_subjects(JetStream& jetstream, const Options& options,
                                                 const std::string& stream) {
  Result<Answer> info = jetstream.ask("STREAM.INFO." + stream);
  if (!info) return fail(info.error());
  if (info->error_number() == kStreamNotFound && options.declare && !options.subjects.empty())
    info = jetstream.require("STREAM.CREATE." + stream,
                             "{\"name\":" + json_text(stream) + ",\"subjects\":" +
                                 list_of(options.subjects) + ",\"storage\":\"file\"}");
  if (!info) return fail(info.error());
  if (info->error_number() != 0)
    return fail(Errc::unavailable, "the stream " + stream + " cannot be read: " +
                                       info->error_text() + "; create it, or check its name");
  return texts_of(info->json().get("config").get("subjects"));
}

std::string consumer_config(const Options& options, const std::vector<std::string>& filters) {
  std::string config =
      "{\"durable_name\":" + json_text(options.group) +
      ",\"ack_policy\":\"explicit\",\"replay_policy\":\"instant\",\"max_deliver\":-1";
  config += ",\"deliver_policy\":" + std::string(options.from_end ? "\"new\"" : "\"all\"");
  config += ",\"ack_wait\":" + std::to_string(nanoseconds(options.redeliver_after));
  config += ",\"max_ack_pending\":" + std::to_string(options.ack_pending_max);
  if (filters.size() == 1) config += ",\"filter_subject\":" + json_text(filters[0]);
  if (filters.size() > 1) config += ",\"filter_subjects\":" + list_of(filters);
  return config + "}";
}

// An existing consumer may have settings that break our guarantees.
Status check_config(const Json& config, const std::string& name,
                    const std::vector<std::string>& filters) {
  const auto wrong = [&](const std::string& why) {
    return fail(Errc::rejected, "the consumer " + name + " " + why +
                                    "; delete it, or choose another name for dovetail's consumer");
  };
  if (config.get("deliver_subject").is_there()) return wrong("pushes its messages");
  if (config.get("ack_policy").text() != "explicit")
    return wrong("does not require explicit acknowledgements");
  if (config.get("max_deliver").number_or(-1) > 0)
    return wrong("gives up a message after some deliveries (max_deliver), which loses it");
  std::vector<std::string> filtered = texts_of(config.get("filter_subjects"));
  if (const std::string one = config.get("filter_subject").text(); !one.empty())
    filtered.push_back(one);
  if (!same_set(filtered, filters)) return wrong("reads other subjects");
  return {};
}

ConsumerState state_of(const Json& info) {
  ConsumerState state;
  state.acked_stream = info.get("ack_floor").get("stream_seq").number_or(0);
  state.delivered_stream = info.get("delivered").get("stream_seq").number_or(0);
  state.delivered_consumer = info.get("delivered").get("consumer_seq").number_or(0);
  state.ack_pending = info.get("num_ack_pending").number_or(0);
  return state;
}

}  // namespace

std::string Consumer::ack_subject(std::int64_t stream_sequence) const {
  return "$JS.ACK." + stream + "." + name + ".1." + std::to_string(stream_sequence) + "." +
         std::to_string(state.delivered_consumer) + ".0.0";
}

Result<Consumer> find_consumer(JetStream& jetstream, const Options& options,
                               const ServerInfo& server) {
  const Result<std::string> stream = find_stream(jetstream, options);
  if (!stream) return fail(stream.error());
  DOVETAIL_TRY(check_name("a stream", *stream));
  DOVETAIL_TRY(check_name("a consumer", options.group));
  const auto subjects = stream_subjects(jetstream, options, *stream);
  if (!subjects) return fail(subjects.error());
  const bool reads_all = options.subjects.empty() || same_set(options.subjects, *subjects);
  const std::vector<std::string> filters =
      reads_all ? std::vector<std::string>{} : options.subjects;
  if (filters.size() > 1 && parse_version(server.version) < Version{2, 10, 0})
    return fail(Errc::rejected,
                "the NATS server " + server.version +
                    " cannot filter a stream by several subjects; name one subject, or use "
                    "nats-server 2.10 or newer");
  const std::string place = *stream + "." + options.group;
  Result<Answer> info = jetstream.ask("CONSUMER.INFO." + place);
  if (!info) return fail(info.error());
  if (info->error_number() == kConsumerNotFound)
    info = jetstream.require("CONSUMER.DURABLE.CREATE." + place,
                             "{\"stream_name\":" + json_text(*stream) +
                                 ",\"config\":" + consumer_config(options, filters) + "}");
  if (!info) return fail(info.error());
  const Json json = info->json();
  if (info->error_number() != 0)
    return fail(Errc::unavailable, "the consumer " + options.group + " cannot be read: " +
                                       info->error_text() + "; check its settings");
  DOVETAIL_TRY(check_config(json.get("config"), options.group, filters));
  Consumer consumer;
  consumer.stream = *stream;
  consumer.name = options.group;
  const std::chrono::nanoseconds ack_wait(json.get("config").get("ack_wait").number_or(0));
  consumer.ack_wait = std::chrono::duration_cast<Duration>(ack_wait);
  if (consumer.ack_wait <= Duration{0}) consumer.ack_wait = options.redeliver_after;
  consumer.state = state_of(json);
  return consumer;
}

Result<ConsumerState> ask_state(JetStream& jetstream, const Consumer& consumer,
                                const Connection::Handler& others) {
  const Result<Answer> info =
      jetstream.require("CONSUMER.INFO." + consumer.stream + "." + consumer.name, {}, others);
  if (!info) return fail(info.error());
  return state_of(info->json());
}

}  // namespace dovetail::nats
