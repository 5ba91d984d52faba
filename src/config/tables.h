// The keys of every table of the configuration file. Each function declares one table, to be read
// into the given variable. Files are relative to `folder`.
#pragma once

#include <filesystem>

#include "config/config.h"
#include "config/keys/setting.h"
#include "config/stores.h"

namespace dovetail::config {

// [store.NAME]
void declare_sqlite(StoreConfig& store, const std::filesystem::path& folder, Settings& keys);
void declare_postgres(StoreConfig& store, const std::filesystem::path& folder, Settings& keys);
void declare_broker(StoreConfig& store, const std::filesystem::path& folder, Settings& keys);

// `from` finds the store that is read.
void declare_relay(RelayConfig& relay, const FindStore& from, Settings& keys);
// [relay.table], [consumer.table]
void declare_table(TableConfig& table, Settings& keys);
void declare_consumer(ConsumerConfig& consumer, const FindStore& from, Settings& keys);
// [[consumer.handler]]
void declare_handler(HandlerConfig& handler, Settings& keys);

void declare_gateway(GatewayConfig& gateway, const std::filesystem::path& folder, Settings& keys);
void declare_http(HttpConfig& http, const std::filesystem::path& folder, Settings& keys);
void declare_alerts(AlertsConfig& alerts, Settings& keys);
void declare_retention(RetentionConfig& retention, Settings& keys);
void declare_log(LogConfig& log, Settings& keys);

}  // namespace dovetail::config
