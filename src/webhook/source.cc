#include "webhook/source.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/ascii.h"
#include "core/check.h"
#include "core/event/event_id.h"
#include "core/event/name_id.h"
#include "server/header_field.h"
#include "server/path.h"
#include "server/secret.h"
#include "webhook/posting.h"

namespace dovetail::http {

namespace {

// Memory of an entry besides its event.
constexpr std::size_t kEntryBytes = 1024;
// About 10 MiB. If more events arrive while signatures are valid, the oldest are no longer
// compared.
constexpr std::size_t kSignedFormsMax = 100'000;

Reply come_back(std::string text) { return Reply{503, std::move(text), 1}; }
Reply refuse(unsigned status, std::string text) { return Reply{status, std::move(text)}; }
Reply unauthorized(std::string text) {
  return Reply{401, std::move(text), 0, "WWW-Authenticate", "Bearer"};
}

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

// The draft standard puts the value in quotes; most senders do not.
std::string_view unquoted(std::string_view text) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"')
    return text.substr(1, text.size() - 2);
  return text;
}

bool is_about_http(std::string_view lower_name) {
  return is_reserved_header(lower_name) || lower_name.starts_with("x-forwarded-") ||
         lower_name == "x-real-ip" || lower_name == "content-length";
}

EndpointOptions endpoint_options(const SourceOptions& options) {
  EndpointOptions endpoint;
  endpoint.address = options.address;
  endpoint.port = options.port;
  endpoint.allow_remote = !options.token.empty() || !options.secrets.empty();
  endpoint.remote_hint = "anybody could post events to \"" + options.address +
                         "\"; set a token or a secret for signatures, or listen at 127.0.0.1";
  endpoint.cert_file = options.cert_file;
  endpoint.key_file = options.key_file;
  endpoint.body_bytes_max = options.payload_bytes_max;
  endpoint.head_timeout = options.head_timeout;
  endpoint.receive_timeout = options.receive_timeout;
  endpoint.connections_per_client_max = options.connections_per_client_max;
  endpoint.waiting_max = options.waiting_max;
  endpoint.waiting_bytes_max = options.waiting_bytes_max;
  endpoint.header_bytes_max = options.header_bytes_max;
  return endpoint;
}

}  // namespace

HttpSource::HttpSource(SourceOptions options, Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      // A signature may be from the future, and is valid until it is too old.
      signed_forms_(2 * options_.signature_age_max, kSignedFormsMax),
      endpoint_(endpoint_options(options_), clock_, *this) {}

HttpSource::~HttpSource() {
  const std::lock_guard lock(mutex_);
  ending_ = true;
  while (!waiters_.empty())
    answer(waiters_.front(), come_back("the receiver is stopping; send it again"));
}

std::uint64_t HttpSource::taken() const {
  const std::lock_guard lock(mutex_);
  return taken_;
}

Status check(const SourceOptions& options) {
  const Result<WebhookSecrets> secrets = WebhookSecrets::parse(options.secrets);
  if (!secrets) return fail(secrets.error());
  const std::string id_header = to_lower(options.foreign.id);
  if (!secrets->empty() && !id_header.empty() && id_header != "webhook-id")
    return fail(Errc::rejected,
                "with signatures the id is always the header webhook-id; remove the setting "
                "for the id's header");
  const std::string& path = options.path;
  if (!path.starts_with('/') || (path.size() > 1 && path.ends_with('/')) ||
      path.find_first_of("{}?#%") != std::string::npos)
    return fail(Errc::rejected,
                "the path \"" + path +
                    "\" is invalid; it must begin with '/', must not end with '/', and "
                    "must not have fields or a query");
  if (options.cert_file.empty() != options.key_file.empty())
    return fail(Errc::rejected, "cert_file and key_file must be set together; set both or neither");
  if (options.waiting_max == 0)
    return fail(Errc::rejected, "waiting_max is 0; set it to at least 1");
  return {};
}

Status HttpSource::prepare() {
  DOVETAIL_TRY(check(options_));
  options_.foreign.id = to_lower(options_.foreign.id);
  Result<WebhookSecrets> secrets = WebhookSecrets::parse(options_.secrets);
  if (!secrets) return fail(secrets.error());
  secrets_ = std::move(*secrets);
  reader_.emplace(options_.foreign, kHttpDialect);
  return {};
}

Status HttpSource::open() {
  if (!endpoint_.is_listening()) {
    DOVETAIL_TRY(prepare());
    return endpoint_.listen();
  }
  const std::lock_guard lock(mutex_);
  queue_.insert(queue_.begin(), given_.begin(), given_.end());
  for (Entry* const entry : std::exchange(given_, {})) entry->given = false;
  return {};
}

Status HttpSource::read(Batch& out, const Limits& limits, std::stop_token stop) {
  std::unique_lock lock(mutex_);
  expire();
  if (limits.wait_max > Duration{0})
    came_.wait_for(lock, stop, limits.wait_max, [this] { return !queue_.empty(); });
  while (!queue_.empty() && out.size() < limits.events_max) {
    Entry& entry = *queue_.front();
    if (!out.empty() && out.bytes() + entry.bytes > limits.bytes_max) break;
    queue_.pop_front();
    out.append(entry.event());
    entry.given = true;
    given_.push_back(&entry);
  }
  return {};
}

Status HttpSource::settle(const Batch& batch, std::span<const Settled>) {
  const std::lock_guard lock(mutex_);
  for (const Event& event : batch.events()) {
    DOVETAIL_CHECK(!given_.empty() && given_.front()->event().id == event.id);
    Entry& entry = *given_.front();
    given_.pop_front();
    // A parked event also counts as accepted: the sender has done its part.
    while (!entry.waiters.empty()) answer(*entry.waiters.back(), Reply{});
    drop(entry);
  }
  return {};
}

void HttpSource::drop(Entry& entry) {
  bytes_ -= entry.bytes;
  entries_.erase(EventId(entry.event().id));
}

// REQUIRES: mutex_ is held, here and below unless stated otherwise.
void HttpSource::answer(Waiter& waiter, Reply reply) {
  std::erase(waiter.entry->waiters, &waiter);
  endpoint_.answer(*waiter.request, std::move(reply));
  waiters_.erase(waiter.place);
}

void HttpSource::expire() {
  const TimePoint now = clock_.now();
  while (!waiters_.empty() && waiters_.front().until <= now) {
    Entry& entry = *waiters_.front().entry;
    answer(waiters_.front(), come_back("the event was not processed in time; send it again"));
    if (!entry.waiters.empty() || entry.given) continue;
    // The event was not read, and no request waits for it any more.
    std::erase(queue_, &entry);
    drop(entry);
  }
}

bool HttpSource::is_full(std::size_t more_bytes) const {
  return waiters_.size() >= options_.waiting_max || entries_.size() >= options_.waiting_max ||
         bytes_ + more_bytes > options_.waiting_bytes_max;
}

// Called by the endpoint's thread without the mutex, like every function below that takes a
// Request, except those that enqueue() calls.
std::optional<Reply> HttpSource::begin(const Request& request) {
  const Result<std::string> topic = topic_of(request.target);
  if (!topic) return refuse(404, topic.error().text);
  if (request.method != "POST")
    return Reply{405, "only POST is supported; post one event per request", 0, "Allow", "POST"};
  if (!options_.token.empty() &&
      !equal_in_constant_time(request.header("authorization"), "Bearer " + options_.token))
    return unauthorized("the bearer token is wrong or missing; check the header Authorization");
  if (to_lower(request.header("content-type")).starts_with("application/cloudevents"))
    return refuse(415,
                  "CloudEvents are accepted only in binary mode; send the attributes as headers "
                  "ce-id, ce-type ... and the data as the body");
  const std::string_view encoding = request.header("content-encoding");
  if (!encoding.empty() && to_lower(encoding) != "identity")
    return refuse(415, "an encoded body is not supported; send it without Content-Encoding");
  const auto length = number_in(request.header("content-length"));
  if (length && *length > options_.payload_bytes_max)
    return refuse(413, "the body has " + std::to_string(*length) + " bytes, the limit is " +
                           std::to_string(options_.payload_bytes_max));
  const std::lock_guard lock(mutex_);
  expire();
  if (ending_) return come_back("the receiver is stopping; send it again");
  if (is_full(length.value_or(0)))
    return come_back("too many events are waiting; send it again later");
  return std::nullopt;
}

Result<std::string> HttpSource::topic_of(std::string_view target) const {
  const auto nothing = [this] {
    return fail(Errc::rejected, "no such path; post events to " + options_.path + " or " +
                                    options_.path + "/TOPIC");
  };
  const std::string_view path = options_.path == "/" ? "" : std::string_view(options_.path);
  if (!target.starts_with(path)) return nothing();
  target.remove_prefix(path.size());
  if (target.empty() || target == "/") return std::string();
  if (target.front() != '/' || target.find('/', 1) != std::string_view::npos) return nothing();
  std::optional<std::string> topic = percent_decoded(target.substr(1));
  if (!topic) return nothing();
  return std::move(*topic);
}

std::optional<Reply> HttpSource::check_signature(const Request& request, std::string_view id) {
  const std::string_view timestamp = request.header("webhook-timestamp");
  const std::string_view signature = request.header("webhook-signature");
  if (id.empty() || timestamp.empty() || signature.empty())
    return unauthorized(
        "the request is not signed; send webhook-id, webhook-timestamp and webhook-signature as in "
        "Standard Webhooks");
  const auto seconds = number_in(timestamp);
  if (!seconds || *seconds > std::uint64_t{1} << 40)
    return unauthorized("webhook-timestamp is not a number of seconds");
  const WallTime signed_at{std::chrono::seconds(*seconds)};
  if (std::chrono::abs(clock_.wall() - signed_at) > options_.signature_age_max)
    return unauthorized(
        "webhook-timestamp is too far from now; sign each attempt again, and check the clocks");
  if (!secrets_.verify(signature, id, timestamp, request.body))
    return unauthorized(
        "webhook-signature is wrong; check the secret, and sign the body exactly as it "
        "is sent");
  const std::string_view event_id = request.header("ce-id");
  if (!event_id.empty() && event_id != id)
    return refuse(400, "ce-id and webhook-id differ; send the same id in both");
  return std::nullopt;
}

// Derived only from signed parts and the configuration: nothing else in a request may change the
// event's identity.
EventId HttpSource::signed_id(std::string_view webhook_id) const {
  if (const auto parsed = read_id(webhook_id)) return *parsed;
  return name_id(name_id(kMessageNames, options_.path), webhook_id);
}

std::optional<Reply> HttpSource::make_entry(Request& request, std::string_view id, Entry& entry) {
  entry.body = std::move(request.body);
  std::vector<MessageHeader> headers;
  std::vector<std::string> lower_names;  // HTTP header names ignore case
  lower_names.reserve(request.headers.size());
  for (const MessageHeader& header : request.headers) {
    std::string lower = to_lower(header.name);
    if (is_about_http(lower) && lower != options_.foreign.id) continue;
    lower_names.push_back(std::move(lower));
    headers.push_back({lower_names.back(), header.value});
  }
  const Result<std::string> topic = topic_of(request.target);
  ReceivedMessage message;
  message.topic = topic ? std::string_view(*topic) : std::string_view();
  message.headers = headers;
  message.content_type = request.header("content-type");
  message.native_id = id;
  message.time = clock_.wall();
  reader_->read(message, EventId{}, entry.batch);
  Event& event = entry.event();
  if (!event.defect.empty()) return refuse(400, std::string(event.defect));
  if (!secrets_.empty()) {
    event.id = signed_id(id);
    if (!signed_forms_.agrees(event, clock_.now()))
      return refuse(
          422,
          "this webhook-id arrived before with another topic, type, key or content type; send "
          "the event unchanged, or give it a new id");
  }
  event.payload = entry.body;
  entry.bytes = entry.body.size() + entry.batch.bytes() + kEntryBytes;
  return std::nullopt;
}

std::optional<Reply> HttpSource::take(Request& request) {
  if (request.body_too_large)
    return refuse(413, "the body has more than " + std::to_string(options_.payload_bytes_max) +
                           " bytes, the limit");
  if (request.no_room)
    return come_back("too many requests are being received; send it again later");
  std::string_view id = request.header("webhook-id");
  if (!secrets_.empty())
    if (auto reply = check_signature(request, id)) return reply;
  if (id.empty()) id = unquoted(request.header("idempotency-key"));
  if (request.body.empty()) return refuse(400, "the body is empty; send the event's data in it");
  if (id.empty() && request.header("ce-id").empty() && request.header("id").empty() &&
      (options_.foreign.id.empty() || request.header(options_.foreign.id).empty()))
    return refuse(400,
                  "the event has no id; send the same id with every attempt, as ce-id, webhook-id "
                  "or Idempotency-Key");
  auto entry = std::make_unique<Entry>();
  if (auto reply = make_entry(request, id, *entry)) return reply;
  const std::lock_guard lock(mutex_);
  return enqueue(request, std::move(entry));
}

void HttpSource::begin_after(std::int64_t position) {
  const std::lock_guard lock(mutex_);
  last_position_ = std::max(last_position_, position);
}

std::optional<Reply> HttpSource::enqueue(Request& request, std::unique_ptr<Entry> entry) {
  if (ending_) return come_back("the receiver is stopping; send it again");
  if (is_full(entry->bytes)) return come_back("too many events are waiting; send it again later");
  const auto [found, is_new] = entries_.try_emplace(entry->event().id);
  if (!is_new) {
    if (found->second->body != entry->body)
      return refuse(422,
                    "another event with this id is being processed; give each event its own id");
    wait_for(request, *found->second);
    return std::nullopt;
  }
  // Positions keep ascending after a restart: parking orders the events of a key by position.
  last_position_ = std::max(last_position_ + 1, clock_.wall().time_since_epoch().count());
  entry->event().position = last_position_;
  bytes_ += entry->bytes;
  queue_.push_back(entry.get());
  wait_for(request, *entry);
  found->second = std::move(entry);
  came_.notify_one();
  return std::nullopt;
}

void HttpSource::wait_for(Request& request, Entry& entry) {
  const TimePoint until = clock_.now() + options_.answer_timeout;
  const auto place = waiters_.insert(waiters_.end(), Waiter{&request, &entry, until});
  place->place = place;
  entry.waiters.push_back(&*place);
  ++taken_;
}

}  // namespace dovetail::http
