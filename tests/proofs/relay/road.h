// Where the order service of a siege keeps its books, and so which road its events take.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "demo/shop.h"

namespace dovetail::shop {

// How far the relays are.
struct Outbox {
  std::uint64_t events = 0;
  std::uint64_t pending = 0;
  std::uint64_t held = 0;     // parked, or waiting behind what is
  std::uint64_t settled = 0;  // by writes that were accepted
  std::string owners{};       // of leases, each with the number of its process
};

// One thread.
class Road {
 public:
  virtual ~Road() = default;
  virtual Status open() = 0;  // makes the books
  virtual Status run_order_service(OrderServiceOptions options) = 0;
  virtual Status read_orders(Books& books) = 0;
  virtual Result<Outbox> look() = 0;
  virtual std::string url() const = 0;  // as the config of dovetail names it
  virtual std::uint32_t lanes() const = 0;
  virtual std::size_t relays() const = 0;
  virtual std::string mode() const { return {}; }  // of reading, where there are several
  // Ends the database's server, if there is one, and starts it again. rejected: there is none.
  virtual Status crash_server() = 0;
};

std::unique_ptr<Road> sqlite_road(const std::string& folder);
// `is_host`: starts a server that lives as long as the road; otherwise it is there already. `mode`:
// in which it is read.
std::unique_ptr<Road> postgres_road(const std::string& folder, bool is_host, std::string mode);

}  // namespace dovetail::shop
