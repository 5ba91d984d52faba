#include "assembly/library/own_consumer.h"

#include <algorithm>
#include <set>

#include "assembly/consumer_lane.h"
#include "host/host.h"

namespace dovetail::assembly {
namespace {

constexpr std::uint32_t kParallelMax = 256;

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= 50 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  });
}

config::RelayConfig relay_of(const OwnConsumerPlan& plan) {
  const ConsumerOptions& options = plan.options;
  config::RelayConfig relay;
  relay.name = options.name;
  relay.lanes = options.parallel;
  relay.lease = options.lease_term;
  // An event of an outbox gets the topic that a relay would give it.
  if (options.origin.make || plan.source != SourceKind::outbox) relay.topic.clear();
  relay.options.attempts_max = options.attempts_max;
  relay.options.key_retry = RetryPolicy{options.retry_base, options.retry_cap};
  relay.options.batch_events_max = options.batch_events_max;
  relay.options.batch_bytes_max = options.batch_bytes_max;
  relay.options.window_events_max = options.window_events_max;
  relay.options.window_bytes_max = options.window_bytes_max;
  return relay;
}

}  // namespace

Status check_options(const ConsumerOptions& options) {
  const char* wrong = nullptr;
  if (options.database.empty())
    wrong = "ConsumerOptions::database is empty; set it to the consumer's own database";
  if (options.name.empty() || options.name.size() > 200)
    wrong = "ConsumerOptions::name must have 1 to 200 bytes; check it";
  if (options.name.find('.') != std::string::npos)
    wrong =
        "ConsumerOptions::name has a dot, which separates a consumer from its handler; use another "
        "character";
  if (!options.from.empty() && options.origin.make)
    wrong = "ConsumerOptions has both `from` and `origin`; set only one of them";
  if (options.attempts_max == 0) wrong = "ConsumerOptions::attempts_max is 0; set it to at least 1";
  if (options.parallel == 0 || options.parallel > kParallelMax)
    wrong = "ConsumerOptions::parallel must be 1 to 256; check it";
  if (options.batch_events_max == 0 || options.window_events_max == 0)
    wrong = "a limit of ConsumerOptions is 0; batches and window must hold at least 1 event";
  if (options.lease_term < std::chrono::milliseconds(100))
    wrong = "ConsumerOptions::lease_term is below 100 ms; raise it, 10 s is usual";
  if (wrong != nullptr) return fail(Errc::rejected, wrong);
  return {};
}

Result<std::vector<std::string>> inbox_names(const std::string& consumer,
                                             std::span<const HandlerShape> handlers) {
  if (handlers.empty())
    return fail(Errc::rejected, "the consumer has no handler; pass one to Consumer::open()");
  std::vector<std::string> names;
  std::set<std::string_view> different;
  for (const HandlerShape& handler : handlers) {
    const bool is_only = handlers.size() == 1 && handler.name.empty();
    if ((!is_only && !is_plain_name(handler.name)) || !different.insert(handler.name).second)
      return fail(Errc::rejected, "the handler \"" + handler.name +
                                      "\" needs a unique name of 1 to 50 letters, digits, '-' and "
                                      "'_'; check it");
    if (handler.has_each == handler.has_batch)
      return fail(Errc::rejected,
                  "the handler \"" + handler.name +
                      "\" needs exactly one function; set either `each` or `batch`");
    names.push_back(inbox_name(consumer, handler.name));
  }
  return names;
}

OwnConsumer::OwnConsumer(OwnConsumerPlan plan) : plan_(std::move(plan)), relay_(relay_of(plan_)) {}

Result<std::unique_ptr<OwnConsumer>> OwnConsumer::make(OwnConsumerPlan plan) {
  std::unique_ptr<OwnConsumer> own(new OwnConsumer(std::move(plan)));
  OwnConsumerPlan& parts = own->plan_;
  ConsumerPlan consumer{.from = parts.from,
                        .home = parts.store,
                        .relay = own->relay_,
                        .source = parts.source,
                        .origin = parts.options.origin,
                        .topics = parts.options.topics};
  consumer.make_stages = [&parts, &relay = own->relay_](std::uint32_t worker) {
    std::vector<ChainedSink::Stage> stages;
    stages.push_back({parts.make_inbox(relay, worker)});
    return stages;
  };
  consumer.notify = [self = own.get()](const RelayNotice& notice) { self->tell(notice); };
  auto lane = make_consumer_lane(std::move(consumer), system_clock());
  if (!lane) return fail(lane.error());
  own->lane_ = std::move(*lane);
  return own;
}

void OwnConsumer::tell(const RelayNotice& notice) {
  if (!plan_.options.log) return;
  const std::lock_guard lock(telling_);
  plan_.options.log(std::string(to_string(notice.kind)) + ": " + notice.text);
}

ConsumerCounts OwnConsumer::counts() const {
  const RelayMetrics& metrics = lane_->metrics();
  const auto read = [](const RelayMetrics::Counter& counter) {
    return counter.load(std::memory_order_relaxed);
  };
  ConsumerCounts counts;
  counts.duplicates = read(metrics.duplicates);
  // The relay counts a duplicate as confirmed, too, and it does that first.
  counts.applied = std::max(read(metrics.confirmed), counts.duplicates) - counts.duplicates;
  counts.failed = read(metrics.failed) + read(metrics.rejected);
  counts.parked = read(metrics.parked);
  return counts;
}

}  // namespace dovetail::assembly
