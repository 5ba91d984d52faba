#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <stdexcept>

#include "brokers.h"
#include "host/host.h"

namespace dovetail::bench {

void require(bool holds, const std::string& otherwise) {
  if (!holds) throw std::runtime_error(otherwise);
}

Speed measured(std::size_t events, const std::function<void()>& work) {
  const double start = seconds_now();
  const double cpu_start = cpu_seconds();
  work();
  const auto count = static_cast<double>(events);
  return {count / (seconds_now() - start), (cpu_seconds() - cpu_start) * 1e6 / count};
}

namespace {

constexpr const char* kState = "build/bench/servers";
constexpr std::size_t kBatch = 1000;
constexpr std::size_t kInFlight = 4;
constexpr std::size_t kKeys = 1000;
constexpr Duration kSilenceMax = std::chrono::seconds(60);

void collect(Sink& sink, std::size_t count, std::vector<Outcome>& outcomes) {
  outcomes.assign(count, {});
  const TimePoint end = system_clock().now() + kSilenceMax;
  for (;;) {
    const Result<bool> known = sink.collect(outcomes, std::chrono::milliseconds(100));
    require(known.has_value(), known ? "" : known.error().text);
    if (*known) break;
    require(system_clock().now() < end, "the sink is silent; check its server");
  }
  for (const Outcome& outcome : outcomes)
    require(outcome.fate == Fate::confirmed, "an event was not confirmed: " + outcome.reason);
}

Speed drive(Sink& sink, const std::vector<const Event*>& events) {
  return measured(events.size(), [&] {
    std::vector<Outcome> outcomes;
    const auto size_at = [&](std::size_t from) { return std::min(kBatch, events.size() - from); };
    std::size_t sent = 0;
    std::size_t collected = 0;
    while (collected < events.size()) {
      while (sent < events.size() && sent - collected < kInFlight * kBatch) {
        const Status submitted = sink.submit(Events(events).subspan(sent, size_at(sent)));
        require(submitted.has_value(), submitted ? "" : submitted.error().text);
        sent += size_at(sent);
      }
      collect(sink, size_at(collected), outcomes);
      collected += size_at(collected);
    }
  });
}

}  // namespace

Broker::Broker(const std::string& name)
    : started_(name, (std::filesystem::create_directories(kState), kState)) {
  require(started_.server().missing.empty(), started_.server().missing);
}

BenchEvents::BenchEvents(std::size_t count, const std::string& topic) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < kKeys; ++i) keys.push_back(fmt::format("order-{:06}", i));
  batches_.resize((count + kBatch - 1) / kBatch);
  for (std::size_t i = 0; i < count; ++i) {
    Event event;
    event.id = new_event_id();
    event.position = static_cast<std::int64_t>(i) + 1;
    event.topic = topic;
    event.aggregate_type = "order";
    event.aggregate_id = keys[i % kKeys];
    event.aggregate_version = static_cast<std::int64_t>(i / kKeys) + 1;
    event.type = "order_placed";
    event.content_type = "application/json";
    event.headers = R"({"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})";
    event.payload = kPayload;
    event.created_at = system_clock().wall();
    batches_[i / kBatch].append(event);
  }
  for (const Batch& batch : batches_)
    for (const Event& event : batch.events()) pointers_.push_back(&event);
}

void compare(Report& report, const Contest& contest, const BenchEvents& events) {
  const auto ours = [&] {
    const std::unique_ptr<Sink> sink = contest.make_sink();
    const Status opened = sink->open();
    require(opened.has_value(), opened ? "" : opened.error().text);
    return drive(*sink, events.all());
  };
  const auto bare = [&] { return contest.bare_loop(events.all()); };
  bare();
  if (contest.bytes) {
    const std::int64_t bare_bytes = contest.bytes();
    ours();
    const std::int64_t our_bytes = contest.bytes();
    require(our_bytes == bare_bytes,
            fmt::format("{} bytes are of ours, {} of the bare loop", our_bytes, bare_bytes));
  }
  const std::string name = contest.name;
  report.measure({{name + " sink / bare loop", "ratio", 0.8},
                  {name + " sink", "events/s"},
                  {name + " bare loop", "events/s"},
                  {name + " sink, CPU", "us/event"},
                  {name + " bare loop, CPU", "us/event"}},
                 [&] {
                   const Speed b = bare();
                   const Speed o = ours();
                   return std::vector<double>{o.per_second / b.per_second, o.per_second,
                                              b.per_second, o.cpu_us, b.cpu_us};
                 });
}

}  // namespace dovetail::bench
