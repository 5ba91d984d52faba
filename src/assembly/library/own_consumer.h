// A consumer that an application opens: its options take the place of the configuration file.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "assembly/wiring.h"
#include "config/config.h"
#include "core/relay/sink.h"
#include "dovetail/consumer.h"

namespace dovetail::assembly {

struct OwnConsumerPlan {
  ConsumerOptions options;
  config::StoreConfig store{};  // its own database
  config::StoreConfig from{};   // that it reads; not used with ConsumerOptions::origin
  SourceKind source = SourceKind::outbox;
  // The handlers inside the transaction, with a connection of their own.
  std::function<std::shared_ptr<Sink>(const config::RelayConfig& relay, std::uint32_t lane)>
      make_inbox;
};

class OwnConsumer {
 public:
  static Result<std::unique_ptr<OwnConsumer>> make(OwnConsumerPlan plan);
  OwnConsumer(const OwnConsumer&) = delete;
  OwnConsumer& operator=(const OwnConsumer&) = delete;

  Status run(std::stop_token stop) { return lane_->run(std::move(stop)); }
  ConsumerCounts counts() const;

 private:
  explicit OwnConsumer(OwnConsumerPlan plan);
  void tell(const RelayNotice& notice);

  OwnConsumerPlan plan_;
  config::RelayConfig relay_;
  std::mutex telling_;  // lanes have their own threads
  std::unique_ptr<Lane> lane_;
};

// The public class of a database, which only differs in what its handlers are.
template <class Public>
class Opened final : public Public {
 public:
  explicit Opened(std::unique_ptr<OwnConsumer> own) : own_(std::move(own)) {}
  Status run(std::stop_token stop) override { return own_->run(std::move(stop)); }
  ConsumerCounts counts() const override { return own_->counts(); }

  static Result<std::unique_ptr<Public>> make(OwnConsumerPlan plan) {
    auto own = OwnConsumer::make(std::move(plan));
    if (!own) return fail(own.error());
    return std::make_unique<Opened>(std::move(*own));
  }

 private:
  std::unique_ptr<OwnConsumer> own_;
};

// rejected: options that are wrong for every database.
Status check_options(const ConsumerOptions& options);

// What is checked of a handler.
struct HandlerShape {
  std::string name;
  bool has_each = false;
  bool has_batch = false;
};
// The names of their inbox rows. rejected: a name or a function is missing or too much.
Result<std::vector<std::string>> inbox_names(const std::string& consumer,
                                             std::span<const HandlerShape> handlers);
template <class NamedHandler>
Result<std::vector<std::string>> inbox_names_of(const std::string& consumer,
                                                const std::vector<NamedHandler>& handlers) {
  std::vector<HandlerShape> shapes;
  for (const NamedHandler& one : handlers)
    shapes.push_back({one.name, static_cast<bool>(one.each), static_cast<bool>(one.batch)});
  return inbox_names(consumer, shapes);
}

}  // namespace dovetail::assembly
