#include "console/metrics/samples.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <deque>
#include <sstream>

namespace dovetail::console {

struct Samples::Families {
  std::deque<prometheus::MetricFamily> all{};  // in the order of their first samples
  std::map<std::string, prometheus::MetricFamily*, std::less<>> by_name{};

  prometheus::ClientMetric& add(std::string_view name, std::string_view help,
                                prometheus::MetricType type, const Labels& labels) {
    auto found = by_name.find(name);
    if (found == by_name.end()) {
      prometheus::MetricFamily& family = all.emplace_back();
      family.name = "dovetail_" + std::string(name);
      family.help = help;
      family.type = type;
      found = by_name.emplace(std::string(name), &family).first;
    }
    prometheus::ClientMetric& metric = found->second->metric.emplace_back();
    for (const auto& [key, value] : labels) metric.label.push_back({std::string(key), value});
    return metric;
  }
};

Samples::Samples() : families_(std::make_unique<Families>()) {}
Samples::~Samples() = default;

void Samples::counter(std::string_view name, std::string_view help, const Labels& labels,
                      double value) {
  families_->add(name, help, prometheus::MetricType::Counter, labels).counter.value = value;
}

void Samples::gauge(std::string_view name, std::string_view help, const Labels& labels,
                    double value) {
  families_->add(name, help, prometheus::MetricType::Gauge, labels).gauge.value = value;
}

void Samples::histogram(std::string_view name, std::string_view help, const Labels& labels,
                        const LatencyHistogram& values) {
  // From 64 us to 17 min; what is above is in +Inf only.
  constexpr std::size_t kFirst = 6;
  constexpr std::size_t kLast = 30;
  const LatencyHistogram::Counts counts = values.counts();
  auto& histogram = families_->add(name, help, prometheus::MetricType::Histogram, labels).histogram;
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < counts.buckets.size(); ++i) {
    below += counts.buckets[i];
    if (i < kFirst || i > kLast) continue;
    histogram.bucket.push_back({below, static_cast<double>(std::uint64_t{1} << i) / 1e6});
  }
  histogram.sample_count = below;
  histogram.sample_sum = static_cast<double>(counts.sum_us) / 1e6;
}

std::string Samples::text() const {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(
      out, std::vector<prometheus::MetricFamily>(families_->all.begin(), families_->all.end()));
  return std::move(out).str();
}

}  // namespace dovetail::console
