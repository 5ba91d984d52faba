// Samples of metrics, gathered by name, and written as text.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/metrics.h"

namespace dovetail::console {

using Labels = std::vector<std::pair<std::string_view, std::string>>;

class Samples {
 public:
  Samples();
  ~Samples();
  Samples(const Samples&) = delete;
  Samples& operator=(const Samples&) = delete;

  // The name without "dovetail_". A counter ends in "_total".
  void counter(std::string_view name, std::string_view help, const Labels& labels, double value);
  void gauge(std::string_view name, std::string_view help, const Labels& labels, double value);
  // In seconds; the name ends in "_seconds".
  void histogram(std::string_view name, std::string_view help, const Labels& labels,
                 const LatencyHistogram& values);

  // The text format of Prometheus.
  std::string text() const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace dovetail::console
