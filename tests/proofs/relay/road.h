// Where the order service of a siege keeps its books, which decides the path of its events.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "demo/shop.h"

namespace dovetail::shop {

// The progress of the relays.
struct Outbox {
  std::uint64_t events = 0;
  std::uint64_t pending = 0;
  std::uint64_t held = 0;     // parked, or waiting behind a parked event
  std::uint64_t settled = 0;  // by accepted writes
  std::string owners{};       // of leases, each with its process id
};

// One thread.
class Road {
 public:
  virtual ~Road() = default;
  virtual Status open() = 0;  // creates the books
  virtual Status run_order_service(OrderServiceOptions options) = 0;
  virtual Status read_orders(Books& books) = 0;
  virtual Result<Outbox> look() = 0;
  virtual std::string url() const = 0;  // as in dovetail's config
  virtual std::uint32_t lanes() const = 0;
  virtual std::size_t relays() const = 0;
  virtual std::string mode() const { return {}; }  // how to read, if there is a choice
  // Kills the database server and starts it again. rejected: there is no server.
  virtual Status crash_server() = 0;
};

std::unique_ptr<Road> sqlite_road(const std::string& folder);
// `is_host`: starts a server that lives as long as the road; otherwise it exists already. `mode`:
// how it is read.
std::unique_ptr<Road> postgres_road(const std::string& folder, bool is_host, std::string mode);

}  // namespace dovetail::shop
