#include "host/host.h"
#include "proofs/relay/road.h"
#include "sqlite/operate/admin.h"

namespace dovetail::shop {
namespace {

// One relay at a time; the other stands by.
class SqliteRoad final : public Road {
 public:
  explicit SqliteRoad(const std::string& folder) : file_(folder + "/orders.db") {}

  Status open() override { return open_order_books(file_); }
  Status run_order_service(OrderServiceOptions options) override {
    options.database = file_;
    return shop::run_order_service(options);
  }
  Status read_orders(Books& books) override { return read_order_books(file_, books); }
  Result<Outbox> look() override {
    const auto status = sqlite::status(file_, system_clock());
    if (!status) return fail(status.error());
    Outbox outbox{.events = status->outbox_rows, .pending = status->outbox_rows};
    if (status->relays.empty()) return outbox;
    const RelayStatus& reader = status->relays.front();
    outbox.pending = reader.pending;
    outbox.held = reader.parked + reader.waiting;
    outbox.settled = reader.delivered_total + reader.parked_total - reader.replayed_total;
    outbox.owners = reader.owner;
    return outbox;
  }
  std::string url() const override { return "sqlite:orders.db"; }
  std::uint32_t lanes() const override { return 1; }
  std::size_t relays() const override { return 2; }
  Status crash_server() override { return fail(Errc::rejected, "SQLite has no server"); }

 private:
  std::string file_;
};

}  // namespace

std::unique_ptr<Road> sqlite_road(const std::string& folder) {
  return std::make_unique<SqliteRoad>(folder);
}

}  // namespace dovetail::shop
