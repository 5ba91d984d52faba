#include "gateway/gateway.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "core/ascii.h"
#include "core/check.h"
#include "gateway/client_identity.h"
#include "gateway/gateway_replies.h"
#include "host/host.h"
#include "server/header_field.h"
#include "server/path.h"

namespace dovetail::http {

namespace {

using Level = GatewayNotice::Level;

constexpr auto kRetryPause = std::chrono::milliseconds(100);
constexpr auto kPatiencePause =
    std::chrono::milliseconds(50);  // between two checks of waiting clients
// Extra time for everything but waiting and the service itself.
constexpr auto kLeaseMargin = std::chrono::seconds(30);
constexpr Duration kAbortMax = std::chrono::seconds(5);

bool may_come_back(const Error& error) {
  return error.code == Errc::unavailable || error.code == Errc::in_doubt;
}

EndpointOptions endpoint_options(const GatewayOptions& options) {
  EndpointOptions endpoint = options.endpoint;
  for (const std::string& proxy : options.trusted_proxies)
    if (const auto range = AddressRange::parse(proxy)) endpoint.trusted_proxies.push_back(*range);
  return endpoint;
}

std::chrono::milliseconds to_milliseconds(Duration duration) {
  return std::chrono::ceil<std::chrono::milliseconds>(duration);
}

}  // namespace

// One request in progress. It is in one queue or with one thread at a time. While that thread waits
// for the store, another thread may answer the client, under the mutex.
struct Gateway::Job {
  // give_back: like release, but the call that took the key may not have committed yet.
  enum class Settle : std::uint8_t { finish, release, abandon, give_back };

  Request* request = nullptr;  // null: already answered
  TimePoint came_at{};
  bool has_key = false;
  std::string scope{};
  std::string key{};
  std::string fingerprint{};
  EventId token{};
  TimePoint lease_ends{};     // at the latest
  bool may_be_taken = false;  // the store may have taken the key
  Settle settle = Settle::finish;
  StoredResponse response{};
  TimePoint settle_since{};

  RequestKey id() const { return {scope, key, fingerprint}; }
  bool is_settling() const { return settle_since != TimePoint{}; }
  void settle_as(Settle how, TimePoint now) {
    settle = how;
    settle_since = now;
  }
};

struct Gateway::LateReply {
  Request* request;
  Reply reply;
};

// After an error the store is opened again before its next use.
struct Gateway::Lane {
  std::unique_ptr<RequestStore> store;
  bool is_open = false;
};

Duration longest(const GatewayOptions& options) {
  return options.place_patience + options.service.connect_timeout + options.service.timeout +
         options.store_patience;
}

Status check(const GatewayOptions& options) {
  DOVETAIL_TRY(check(options.service));
  if (options.requests_max == 0 || options.connections == 0 || options.endpoint.waiting_max == 0)
    return fail(Errc::rejected,
                "requests_max, waiting_max and connections must be at least 1; check them");
  if (options.store_patience < kRetryPause)
    return fail(Errc::rejected, "store_timeout must be at least 100ms; raise it");
  if (options.endpoint.cert_file.empty() != options.endpoint.key_file.empty())
    return fail(Errc::rejected, "cert_file and key_file must be set together; set both or neither");
  if (options.lease.count() != 0 && options.lease <= longest(options))
    return fail(Errc::rejected,
                "lease is too short; make it longer than the sum of wait_max, connect_timeout, "
                "request_timeout and store_timeout");
  for (const std::string& proxy : options.trusted_proxies)
    if (!AddressRange::parse(proxy))
      return fail(Errc::rejected,
                  "\"" + proxy +
                      "\" in trusted_proxies is neither an address nor a network; use a "
                      "form like 10.0.0.1 or 10.0.0.0/8");
  for (const std::string& method : options.methods)
    if (is_safe_method(method))
      return fail(Errc::rejected, "the method " + method +
                                      " changes nothing and needs no key; remove it from methods");
  return {};
}

Gateway::Gateway(GatewayOptions options, MakeStore make_store, Clock& clock, Notify notify)
    : options_(std::move(options)),
      make_store_(std::move(make_store)),
      clock_(clock),
      notify_(std::move(notify)),
      endpoint_(endpoint_options(options_), clock, *this) {}

Gateway::~Gateway() { stop(Duration{0}); }

Status Gateway::start() {
  DOVETAIL_TRY(check(options_));
  for (std::size_t i = 0; i < options_.connections; ++i)
    threads_.emplace_back([this] { run_store(); });
  for (std::size_t i = 0; i < options_.requests_max; ++i)
    threads_.emplace_back([this] { run_service(); });
  threads_.emplace_back([this] { run_patience(); });
  return endpoint_.listen();
}

bool Gateway::stop(Duration drain) {
  ending_ = true;
  endpoint_.stop_listening();
  std::unique_lock lock(mutex_);
  const auto is_done = [this] { return jobs_ == 0; };
  bool whole = all_done_.wait_for(lock, drain, is_done);
  if (!whole) {
    aborted_ = true;
    for_service_.notify_all();
    all_done_.wait_for(lock, kAbortMax, is_done);
  }
  leaving_ = true;
  for_patience_.notify_all();
  for_store_.notify_all();
  for_service_.notify_all();
  lock.unlock();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  // Requests that could not be settled: their leases expire.
  for (const JobPointer& job : settling_) reply_to(*job, reply_of(std::move(job->response), false));
  for (auto* queue : {&beginning_, &waiting_})
    for (const JobPointer& job : *queue) reply_to(*job, refuse(stopping()));
  for (auto* queue : {&beginning_, &settling_, &waiting_}) queue->clear();
  return whole;
}

GatewayCounts Gateway::counts() const {
  return {count_.executed.load(), count_.replayed.load(),   count_.running.load(),
          count_.unknown.load(),  count_.mismatched.load(), count_.lost.load(),
          count_.passed.load(),   count_.refused.load()};
}

void Gateway::note(Level level, std::string text, const Job* job) const {
  notify_({level, std::move(text),
           job != nullptr && job->has_key ? shown_key(job->key) : std::string()});
}

Reply Gateway::refuse(const Problem& problem) {
  ++count_.refused;
  return reply_of(problem);
}

// --- On the endpoint's thread.

bool Gateway::has_key(const Request& request) const {
  if (std::find(options_.methods.begin(), options_.methods.end(), request.method) ==
      options_.methods.end())
    return false;
  return options_.key_required ||
         std::any_of(request.headers.begin(), request.headers.end(),
                     [](const auto& header) { return to_lower(header.name) == "idempotency-key"; });
}

Result<std::string> Gateway::key_of(const Request& request) const {
  const MessageHeader* found = nullptr;
  for (const MessageHeader& header : request.headers) {
    if (to_lower(header.name) != "idempotency-key") continue;
    if (found != nullptr)
      return fail(Errc::rejected, "the header occurs more than once; send one key");
    found = &header;
  }
  if (found == nullptr) return fail(Errc::rejected, "");
  return parse_idempotency_key(found->value, options_.quoted_only);
}

std::optional<Reply> Gateway::begin(const Request& request) {
  if (ending_) return refuse(stopping());
  if (!request.uri.starts_with('/') || request.method == "CONNECT" || request.method == "TRACE")
    return refuse(problem(501, "not-passed", "The gateway does not forward such requests",
                          "Use a method other than CONNECT and TRACE, and a target that begins "
                          "with a slash."));
  if (const std::string_view why = why_unsafe_path(request.target); !why.empty())
    return refuse(problem(
        400, "path-unsafe", "The gateway does not forward this path",
        "The path is ambiguous: " + std::string(why) + ". Nothing was done. Send the plain path."));
  if (has_key(request)) {
    if (const Result<std::string> key = key_of(request); !key)
      return refuse(key_problem(key.error().text));
  }
  const std::lock_guard lock(mutex_);
  if (jobs_ < options_.endpoint.waiting_max) return std::nullopt;
  return refuse(problem(503, "busy", "Too many requests are being processed",
                        "Nothing was done. Send the same request again in a moment.", 1));
}

std::optional<Reply> Gateway::take(Request& request) {
  if (request.body_too_large)
    return refuse(problem(413, "body-too-large", "The body of the request is too large",
                          "The limit is " + std::to_string(options_.endpoint.body_bytes_max) +
                              " bytes. Nothing was done."));
  if (request.no_room)
    return refuse(problem(503, "busy", "Too many requests are being received",
                          "Nothing was done. Send the same request again in a moment.", 1));
  auto job = std::make_unique<Job>();
  job->request = &request;
  job->came_at = clock_.now();
  job->has_key = has_key(request);
  if (job->has_key) {
    job->key = key_of(request).value_or("");
    job->scope = request_scope(options_.name, identity_of(request, options_.client_headers));
    job->token = new_event_id();
  }
  // The threads have ended, so nobody would answer.
  const std::lock_guard lock(mutex_);
  if (leaving_) return refuse(stopping());
  ++jobs_;
  auto& queue = job->has_key ? beginning_ : waiting_;
  (job->has_key ? for_store_ : for_service_).notify_one();
  queue.push_back(std::move(job));
  return std::nullopt;
}

// --- Queues.

void Gateway::to_store(JobPointer job) {
  const std::lock_guard lock(mutex_);
  beginning_.push_back(std::move(job));
  for_store_.notify_one();
}

void Gateway::to_settle(JobPointer job) {
  const std::lock_guard lock(mutex_);
  settling_.push_back(std::move(job));
  for_store_.notify_one();
}

void Gateway::to_service(JobPointer job) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(job));
  for_service_.notify_one();
}

void Gateway::reply_to(Job& job, Reply reply) {
  if (job.request == nullptr) return;
  endpoint_.answer(*std::exchange(job.request, nullptr), std::move(reply));
}

// --- Clients whose time is up.

void Gateway::run_patience() {
  std::unique_lock lock(mutex_);
  while (!for_patience_.wait_for(lock, kPatiencePause, [this] { return leaving_; })) {
    std::vector<LateReply> replies = take_late();
    if (jobs_ == 0) all_done_.notify_all();
    lock.unlock();
    for (LateReply& late : replies) endpoint_.answer(*late.request, std::move(late.reply));
    lock.lock();
  }
}

// Their jobs continue without a client: a key that may be taken is released, and a known answer is
// kept.
std::vector<Gateway::LateReply> Gateway::take_late() {
  std::vector<LateReply> replies;
  const TimePoint now = clock_.now();
  const auto look_at = [&](Job& job) {
    const TimePoint since = job.is_settling() ? job.settle_since : job.came_at;
    if (job.request == nullptr || now - since <= options_.store_patience) return;
    // The service's answer is valid, whether it was stored or not.
    Reply reply = job.is_settling() ? reply_of(StoredResponse(job.response), false)
                                    : refuse(store_unavailable());
    replies.push_back({std::exchange(job.request, nullptr), std::move(reply)});
  };
  for (Job* const job : at_store_) look_at(*job);
  for (const JobPointer& job : settling_) look_at(*job);
  for (JobPointer& job : beginning_) {
    look_at(*job);
    if (job->request != nullptr) continue;
    if (job->may_be_taken) {
      job->settle_as(Job::Settle::give_back, now);
      settling_.push_back(std::move(job));
      for_store_.notify_one();
    } else {
      job.reset();
      --jobs_;
    }
  }
  std::erase(beginning_, nullptr);
  return replies;
}

// --- The store.

void Gateway::run_store() {
  Lane lane{make_store_()};
  while (JobPointer job = next_for_store()) {
    if (job->is_settling())
      settle_at(lane, std::move(job));
    else
      begin_at(lane, std::move(job));
    const std::lock_guard lock(mutex_);
    if (jobs_ == 0) all_done_.notify_all();
  }
}

// Finished and new requests take turns, so neither waits forever.
Gateway::JobPointer Gateway::next_for_store() {
  std::unique_lock lock(mutex_);
  for_store_.wait(lock, [this] { return leaving_ || !beginning_.empty() || !settling_.empty(); });
  if (leaving_) return nullptr;
  is_turn_of_new_ = settling_.empty() || (!beginning_.empty() && !is_turn_of_new_);
  auto& queue = is_turn_of_new_ ? beginning_ : settling_;
  JobPointer job = std::move(queue.front());
  queue.pop_front();
  return job;
}

RequestTerms Gateway::terms() const {
  RequestTerms terms;
  terms.lease = to_milliseconds(options_.lease.count() != 0 ? options_.lease
                                                            : longest(options_) + kLeaseMargin);
  terms.keep = std::max(to_milliseconds(options_.keep), terms.lease);
  terms.retry_unknown = options_.retry_unknown;
  return terms;
}

Status Gateway::open(Lane& lane) {
  if (lane.is_open) return {};
  DOVETAIL_TRY(lane.store->open());
  lane.is_open = true;
  return {};
}

// Until take_from_store(), another thread may answer the client of the job. That thread checks
// periodically, so a pause between two calls belongs in between.
void Gateway::hand_to_store(Job& job) {
  const std::lock_guard lock(mutex_);
  at_store_.push_back(&job);
}

void Gateway::take_from_store(Job& job) {
  const std::lock_guard lock(mutex_);
  std::erase(at_store_, &job);
}

Result<RequestTicket> Gateway::begin_in(Lane& lane, Job& job) {
  DOVETAIL_TRY(open(lane));
  const RequestTerms wanted = terms();
  job.lease_ends = clock_.now() + wanted.lease;
  job.may_be_taken = true;
  return lane.store->begin(job.id(), wanted, job.token);
}

void Gateway::begin_at(Lane& lane, JobPointer job) {
  if (job->fingerprint.empty())
    job->fingerprint = fingerprint_of(*job->request, options_.client_headers);
  hand_to_store(*job);
  const Result<RequestTicket> ticket = begin_in(lane, *job);
  if (!ticket && may_come_back(ticket.error())) clock_.sleep(kRetryPause, {});
  take_from_store(*job);
  if (!ticket) {
    lane.is_open = false;
    return not_begun(std::move(job), ticket.error());
  }
  store_works();
  begun(std::move(job), *ticket);
}

void Gateway::not_begun(JobPointer job, const Error& error) {
  const bool is_away = may_come_back(error);
  if (is_away) store_lost(error);
  if (!is_away) note(Level::error, "cannot take a key: " + error.text, job.get());
  if (is_away && !ending_ && job->request != nullptr) return to_store(std::move(job));
  if (job->request != nullptr) reply_to(*job, refuse(store_unavailable()));
  if (!job->may_be_taken) {
    const std::lock_guard lock(mutex_);
    --jobs_;
    return;
  }
  // A call whose answer was lost may have taken the key, and no request runs under it.
  job->settle_as(Job::Settle::give_back, clock_.now());
  to_settle(std::move(job));
}

void Gateway::begun(JobPointer job, const RequestTicket& ticket) {
  switch (ticket.state) {
    case RequestState::first:
      // The client was told that nothing was done, so nothing is done.
      if (job->request == nullptr) {
        job->settle_as(Job::Settle::release, clock_.now());
        return to_settle(std::move(job));
      }
      if (ticket.attempts > 1)
        note(Level::warn,
             "sending a request with an unknown outcome again: attempt " +
                 std::to_string(ticket.attempts),
             job.get());
      return to_service(std::move(job));
    case RequestState::finished:
      ++count_.replayed;
      reply_to(*job, reply_of(ticket.response, true));
      break;
    case RequestState::running:
      ++count_.running;
      break;
    case RequestState::unknown:
      ++count_.unknown;
      break;
    case RequestState::mismatch:
      ++count_.mismatched;
      break;
  }
  if (const auto refused = problem_of(ticket)) reply_to(*job, reply_of(*refused));
  const std::lock_guard lock(mutex_);
  --jobs_;
}

Result<bool> Gateway::settle_in(Lane& lane, const Job& job) {
  DOVETAIL_TRY(open(lane));
  switch (job.settle) {
    case Job::Settle::finish:
      return lane.store->finish(job.id(), job.token, job.response);
    case Job::Settle::release:
      return lane.store->release(job.id(), job.token);
    case Job::Settle::abandon:
      return lane.store->abandon(job.id(), job.token);
    case Job::Settle::give_back:
      break;
  }
  // Repeating the call waits for the one whose answer was lost, if it has not committed yet.
  RequestTerms wanted = terms();
  wanted.retry_unknown = false;
  const Result<RequestTicket> ticket = lane.store->begin(job.id(), wanted, job.token);
  // Already released, by a call whose answer was lost.
  if (!ticket && ticket.error().code == Errc::rejected) return false;
  if (!ticket) return fail(ticket.error());
  if (ticket->state != RequestState::first) return false;
  return lane.store->release(job.id(), job.token);
}

void Gateway::settle_at(Lane& lane, JobPointer job) {
  hand_to_store(*job);
  const Result<bool> done = settle_in(lane, *job);
  if (!done && may_come_back(done.error())) clock_.sleep(kRetryPause, {});
  take_from_store(*job);
  if (!done) {
    lane.is_open = false;
    return not_settled(std::move(job), done.error());
  }
  store_works();
  if (!*done && job->settle == Job::Settle::finish)
    note(Level::warn,
         "the answer came after the lease had expired, and another gateway took the request over; "
         "check for long pauses of this process",
         job.get());
  reply_to(*job, reply_of(std::move(job->response), false));
  const std::lock_guard lock(mutex_);
  --jobs_;
}

void Gateway::not_settled(JobPointer job, const Error& error) {
  const bool is_away = may_come_back(error);
  if (is_away) store_lost(error);
  if (is_away && clock_.now() < job->lease_ends && !aborted_) return to_settle(std::move(job));
  note(Level::error,
       "cannot store the outcome of a request, so repeats get outcome-unknown: " + error.text,
       job.get());
  reply_to(*job, reply_of(std::move(job->response), false));
  const std::lock_guard lock(mutex_);
  --jobs_;
}

void Gateway::store_lost(const Error& error) {
  if (!store_is_lost_.exchange(true)) note(Level::warn, "the store is unavailable: " + error.text);
}

void Gateway::store_works() {
  if (store_is_lost_.exchange(false)) note(Level::info, "the store is available again");
}

// --- The service.

void Gateway::run_service() {
  Forwarder forwarder(options_.service, aborted_);
  while (JobPointer job = next_for_service()) {
    pass_on(forwarder, std::move(job));
    const std::lock_guard lock(mutex_);
    if (jobs_ == 0) all_done_.notify_all();
  }
}

Gateway::JobPointer Gateway::next_for_service() {
  std::unique_lock lock(mutex_);
  for_service_.wait(lock, [this] { return leaving_ || !waiting_.empty(); });
  if (waiting_.empty()) return nullptr;
  JobPointer job = std::move(waiting_.front());
  waiting_.pop_front();
  return job;
}

void Gateway::pass_on(Forwarder& forwarder, JobPointer job) {
  ForwardAnswer answer;
  const bool is_late =
      clock_.now() - job->came_at > options_.place_patience + options_.store_patience;
  if (is_late || aborted_) {
    answer.fate = ForwardAnswer::Fate::not_sent;
    answer.why =
        "no slot for the service became free within wait_max; check requests_max and the service";
  } else {
    const Request& request = *job->request;
    answer = forwarder.forward({request.method, request.uri, &request.headers, request.body,
                                request.peer, request.is_from_proxy});
  }
  answered(std::move(job), std::move(answer));
}

void Gateway::answered(JobPointer job, ForwardAnswer answer) {
  using Fate = ForwardAnswer::Fate;
  using Settle = Job::Settle;
  const bool is_head = job->request->method == "HEAD";
  switch (answer.fate) {
    case Fate::answered: {
      const auto& released = options_.released_statuses;
      const bool nothing_done =
          std::find(released.begin(), released.end(), answer.status) != released.end();
      job->settle = nothing_done ? Settle::release : Settle::finish;
      job->response = {answer.status, to_lines(answer.headers), std::move(answer.body)};
      ++(job->has_key ? count_.executed : count_.passed);
      break;
    }
    case Fate::not_sent:
      note(Level::warn, "cannot reach the service: " + answer.why);
      ++count_.refused;
      job->settle = Settle::release;
      job->response = stored(problem(503, "service-unreachable", "The service is not reachable",
                                     "The request was not forwarded, and nothing was done. Send "
                                     "the same request again in a moment."));
      job->response.headers += "Retry-After: 1\n";
      break;
    case Fate::lost:
      note(Level::warn, "the outcome of a request is unknown: " + answer.why, job.get());
      ++count_.lost;
      job->settle = Settle::abandon;
      job->response =
          stored(problem(answer.timed_out ? 504 : 502, "outcome-unknown",
                         "The service did not answer, so the outcome is unknown",
                         !job->has_key ? "Check the effect before you send the request again."
                         : options_.retry_unknown
                             ? "Send the same request with the same key again."
                             : "The request may or may not have taken effect. The gateway does "
                               "not run it again under this key. Check the effect; if there "
                               "is none, send the request with a new key."));
      break;
    case Fate::too_large:
      note(Level::warn, answer.why, job.get());
      ++count_.refused;
      job->settle = Settle::finish;
      job->response =
          stored(problem(502, "answer-too-large", "The answer of the service is too large",
                         "The service answered with status " + std::to_string(answer.status) +
                             ", but its answer exceeds the gateway's limit."));
      break;
  }
  if (job->has_key) {
    job->settle_since = clock_.now();
    return to_settle(std::move(job));
  }
  Reply reply = reply_of(std::move(job->response), false);
  if (is_head && answer.fate == Fate::answered)
    reply.head_bytes = answer.length.value_or(kUnknownLength);
  reply_to(*job, std::move(reply));
  const std::lock_guard lock(mutex_);
  --jobs_;
}

}  // namespace dovetail::http
