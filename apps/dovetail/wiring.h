// From the config file to running relays. Plain functions choose the adapter by the scheme of a
// store's url; today there is one scheme, "sqlite:".
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "core/clock.h"
#include "core/metrics.h"
#include "core/relay.h"
#include "dovetail/result.h"
#include "ops/config.h"

namespace dovetail::app {

// One relay with all that it works on. run() belongs to one thread; metrics may be read by any.
class Lane {
 public:
  virtual ~Lane() = default;
  virtual Status run(std::stop_token stop) = 0;
  virtual const RelayMetrics& metrics() const = 0;
};

// `config` must outlive the lane. `notify` is called on the thread that runs it.
Result<std::unique_ptr<Lane>> make_lane(const ops::Config& config, const ops::RelayConfig& relay,
                                        Clock& clock,
                                        std::function<void(const RelayNotice&)> notify);

// How this process is called in a lease: "host:pid".
std::string process_label();

}  // namespace dovetail::app
