#include "webhook/sink.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "webhook/answer.h"

namespace dovetail::http {

namespace {

// A single event may crash its receiver. This many failures in a row are an outage.
constexpr std::uint32_t kOutage = 5;

std::string seconds_text(Duration duration) {
  return std::to_string(std::chrono::ceil<std::chrono::seconds>(duration).count()) + " s";
}

}  // namespace

HttpSink::HttpSink(SinkOptions options, Clock& clock)
    : options_(std::move(options)), clock_(clock) {}

Status check(const SinkOptions& options) {
  const Result<PostingWriter> writer = PostingWriter::make(options);
  if (!writer) return fail(writer.error());
  if (options.requests_in_flight_max == 0)
    return fail(Errc::rejected, "requests_max is 0; set it to at least 1");
  if (options.cert_file.empty() != options.key_file.empty())
    return fail(Errc::rejected, "cert_file and key_file must be set together; set both or neither");
  return {};
}

// Every open() reports wrong options.
Status HttpSink::prepare() {
  if (writer_) return {};
  DOVETAIL_TRY(check(options_));
  Result<PostingWriter> writer = PostingWriter::make(options_);
  writer_.emplace(std::move(*writer));
  transfers_.emplace(options_, writer_->url(), clock_);
  return {};
}

Status HttpSink::open() {
  ready_.clear();
  lines_.clear();
  failed_keys_.clear();
  fence_.clear();
  unanswered_ = 0;
  trouble_.reset();
  DOVETAIL_TRY(prepare());
  DOVETAIL_TRY(transfers_->open());  // before their memory is reused
  submitted_.clear();
  if (const TimePoint now = clock_.now(); now < pause_until_)
    return fail(Errc::unavailable, pause_reason_ + " (the relay pauses for another " +
                                       seconds_text(pause_until_ - now) + ")");
  return transfers_->probe();
}

Status HttpSink::submit(Events events) {
  for (Item& item : submitted_.add(events, ++last_submitted_)) place(item);
  start_ready();
  transfers_->run(Duration{0}, [this](void* request, const Answer& answer) {
    take(*static_cast<Item*>(request), answer);
  });
  start_ready();
  return {};
}

void HttpSink::place(Item& item) {
  if (trouble_) return resolve(item, Outcome{Fate::again, 0, trouble_->text});
  const std::uint64_t key = item.event->key_hash;
  if (key == 0) return ready_.push_back(&item);
  if (failed_keys_.contains(key) || fence_.blocks(key, item.submission->number))
    return resolve(item, Outcome{Fate::again, 0, "an earlier event of its key was not confirmed"});
  const auto [line, is_first] = lines_.try_emplace(key);
  if (is_first) return ready_.push_back(&item);
  if (line->second.tail == nullptr) {
    line->second.head = line->second.tail = &item;
  } else {
    line->second.tail = line->second.tail->next = &item;
  }
}

void HttpSink::start_ready() {
  while (!ready_.empty() && !transfers_->is_full() && !trouble_) {
    Item& item = *ready_.front();
    ready_.pop_front();
    const Status written = writer_->write(*item.event, clock_.wall(), transfers_->next());
    if (written) {
      transfers_->start(&item);
    } else {
      resolve(item, Outcome{Fate::rejected, 0, written.error().text});
    }
  }
}

void HttpSink::resolve(Item& item, Outcome outcome) {
  const bool confirmed = outcome.fate == Fate::confirmed;
  submitted_.resolve(item, std::move(outcome));
  const std::uint64_t key = item.event->key_hash;
  if (key == 0) return;
  const auto found = lines_.find(key);
  if (found == lines_.end()) return;
  Item* waiting = found->second.head;
  if (confirmed && waiting != nullptr && !trouble_) {
    found->second.head = waiting->next;
    if (waiting->next == nullptr) found->second.tail = nullptr;
    waiting->next = nullptr;
    ready_.push_back(waiting);
    return;
  }
  lines_.erase(found);
  if (confirmed && waiting == nullptr) return;
  failed_keys_.insert(key);
  while (waiting != nullptr) {
    Item* const next = std::exchange(waiting->next, nullptr);
    resolve(*waiting, Outcome{Fate::again, 0, "an earlier event of its key was not confirmed"});
    waiting = next;
  }
}

void HttpSink::take(Item& item, const Answer& answer) {
  if (answer.status == 0) return take_nothing(item, answer);
  const Meaning meaning = meaning_of(answer.status, writer_->url().has_fields());
  if (meaning == Meaning::confirmed) {
    unanswered_ = 0;
    return resolve(item, Outcome{Fate::confirmed, 0, {}});
  }
  std::string reason = reason_of(answer.status);
  switch (meaning) {
    case Meaning::confirmed:
      break;
    case Meaning::failed:
      unanswered_ = 0;
      return resolve(item, Outcome{Fate::failed, 0, std::move(reason)});
    case Meaning::rejected:
      unanswered_ = 0;
      return resolve(item, Outcome{Fate::rejected, 0, std::move(reason)});
    case Meaning::busy:
      return take_busy(item, answer, reason);
    case Meaning::shut:
      resolve(item, Outcome{Fate::busy, 0, reason});
      return give_up(Error{Errc::unavailable, std::move(reason)}, Duration{0});
  }
}

void HttpSink::take_busy(Item& item, const Answer& answer, const std::string& reason) {
  resolve(item, Outcome{Fate::busy, 0, reason});
  const auto wish = parse_retry_after(answer.retry_after, clock_.wall());
  if (wish && *wish > Duration{0}) {
    const Duration pause = std::min(*wish, options_.retry_after_max);
    return give_up(Error{Errc::unavailable,
                         reason + " after " + seconds_text(pause) + ", as its Retry-After asks"},
                   pause);
  }
  if (++unanswered_ >= kOutage) give_up(Error{Errc::unavailable, reason}, Duration{0});
}

void HttpSink::take_nothing(Item& item, const Answer& answer) {
  const std::string reason = "no answer from " + writer_->url().base() + ": " + answer.text;
  resolve(item, Outcome{Fate::again, 0, reason});
  if (!answer.was_sent) return give_up(Error{Errc::unavailable, reason}, Duration{0});
  if (++unanswered_ >= kOutage) give_up(Error{Errc::in_doubt, reason}, Duration{0});
}

// Sends nothing more. Still waits for requests in flight: they may be confirmed and then need not
// be sent twice.
void HttpSink::give_up(Error error, Duration pause) {
  if (pause > Duration{0}) {
    pause_until_ = std::max(pause_until_, clock_.now() + pause);
    pause_reason_ = error.text;
  }
  if (trouble_) return;
  trouble_ = std::move(error);
  for (Item* const item : std::exchange(ready_, {}))
    resolve(*item, Outcome{Fate::again, 0, trouble_->text});
}

Result<bool> HttpSink::collect(std::span<Outcome> outcomes, Duration timeout) {
  const TimePoint until = clock_.now() + timeout;
  while (!submitted_.empty()) {
    const auto& oldest = submitted_.oldest();
    if (trouble_ && transfers_->in_flight() == 0 && submitted_.nothing_is_told())
      return fail(*trouble_);
    if (oldest.unresolved == 0 && (!trouble_ || oldest.told > 0 || transfers_->in_flight() == 0)) {
      hand_out(outcomes);
      return true;
    }
    const TimePoint now = clock_.now();
    transfers_->run(std::max(until - now, Duration{0}),
                    [this](void* request, const Answer& answer) {
                      take(*static_cast<Item*>(request), answer);
                    });
    start_ready();
    if (now >= until) break;
  }
  return false;
}

void HttpSink::hand_out(std::span<Outcome> outcomes) {
  for (const Item& item : submitted_.oldest().items) {
    const std::uint64_t key = item.event->key_hash;
    if (item.outcome.fate != Fate::confirmed && failed_keys_.erase(key) > 0)
      fence_.raise(key, last_submitted_);
  }
  submitted_.hand_out(outcomes);
}

}  // namespace dovetail::http
