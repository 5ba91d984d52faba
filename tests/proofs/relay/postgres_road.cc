#include <cstdlib>
#include <optional>

#include "postgres/connection/connection.h"
#include "postgres/operate/admin.h"
#include "proofs/relay/postgres_orders.h"
#include "proofs/relay/road.h"
#include "servers/servers.h"

namespace dovetail::shop {
namespace {

// Relays share the lanes; with the WAL there is one lane, and the others stand by. Uses its own
// server, because the tests crash it.
class PostgresRoad final : public Road {
 public:
  PostgresRoad(const std::string& folder, bool is_host, std::string mode) : mode_(std::move(mode)) {
    ::setenv("DOVETAIL_SERVERS", (folder + "/servers").c_str(), 1);
    if (is_host) server_.emplace("postgres", folder + "/servers");
    conninfo_ = servers::find("postgres").conninfo;
  }

  Status open() override {
    if (conninfo_.empty()) return fail(Errc::unavailable, servers::find("postgres").missing);
    return open_postgres_order_books(conninfo_);
  }
  Status run_order_service(OrderServiceOptions options) override {
    options.database = conninfo_;
    return run_postgres_order_service(options);
  }
  Status read_orders(Books& books) override { return read_postgres_order_books(conninfo_, books); }
  Result<Outbox> look() override {
    const auto status = postgres::status(conninfo_);
    if (!status) return fail(status.error());
    auto connection = postgres::Connection::open(conninfo_);
    if (!connection) return fail(connection.error());
    const auto rows = connection->query("SELECT count(*) FROM dovetail.outbox");
    if (!rows) return fail(rows.error());
    Outbox outbox;
    outbox.events = static_cast<std::uint64_t>(rows->int8(0, 0));
    if (status->lanes.empty()) outbox.pending = outbox.events;
    for (const postgres::LaneStatus& lane : status->lanes) {
      outbox.pending += lane.pending;
      outbox.held += lane.parked + lane.waiting;
      outbox.settled += lane.delivered_total + lane.parked_total - lane.replayed_total;
      outbox.owners += lane.owner + " ";
    }
    return outbox;
  }
  std::string url() const override { return "postgres:" + conninfo_; }
  std::uint32_t lanes() const override { return mode_ == "poll" ? 4 : 1; }
  std::size_t relays() const override { return mode_ == "poll" ? 3 : 2; }
  std::string mode() const override { return mode_; }
  Status crash_server() override {
    if (server_->crash()) return {};
    return fail(Errc::unavailable, "the server did not come back; check its log");
  }

 private:
  const std::string mode_;
  std::optional<servers::Started> server_;
  std::string conninfo_;
};

}  // namespace

std::unique_ptr<Road> postgres_road(const std::string& folder, bool is_host, std::string mode) {
  return std::make_unique<PostgresRoad>(folder, is_host, std::move(mode));
}

}  // namespace dovetail::shop
