#include "overview/overview.h"

#include <algorithm>
#include <chrono>

namespace dovetail::app {

using assembly::StoreStatus;

Expected<StoreStatus> ask(const config::StoreConfig& store) {
  if (const auto checked = check_secrets(store); !checked) return tl::unexpected(checked.error());
  auto status = assembly::database_of(store)->status();
  if (!status) return refuse_in(store, status.error());
  return std::move(*status);
}

Overview look(const config::Config& config) {
  Overview overview;
  overview.config = &config;
  for (const config::StoreConfig& store : config.stores) {
    StoreView& view = overview.stores.emplace_back();
    view.store = &store;
    if (store.is_broker()) continue;
    auto status = ask(store);
    if (status)
      view.status = std::move(*status);
    else
      view.failure = std::move(status.error());
  }
  overview.at =
      std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
  return overview;
}

std::string state_of(Duration lease_left, const std::optional<SaidState>& said) {
  if (said && said->is_current) return said->state;
  return lease_left > Duration::zero() ? "unknown" : "stopped";
}

std::string state_of(const assembly::RelayStatus& relay) {
  const std::string_view held = hold_state(relay);
  return held.empty() ? state_of(relay.lease_left, relay.said) : std::string(held);
}

bool knows_pending(const assembly::RelayStatus& relay) {
  return relay.source != SourceKind::broker && relay.error.empty() && relay.is_pending_known;
}

const config::RelayConfig* configured(const config::Config& config,
                                      const config::StoreConfig& store, std::string_view name) {
  for (const config::RelayConfig* relay : config.readers()) {
    if (relay->name != name) continue;
    const config::StoreConfig* const home =
        config.find_store(config.find_store(relay->from)->is_broker() ? relay->to : relay->from);
    if (home == &store) return relay;
  }
  return nullptr;
}

}  // namespace dovetail::app
