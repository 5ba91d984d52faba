// Any text as configuration gives a configuration or an error that names the file.
#include "ops/config.h"

#include "fuzz/fuzz.h"

void check_input(std::string_view input) {
  const auto config = dovetail::ops::parse_config(input, "fuzz.toml");
  if (!config) FUZZ_REQUIRE(config.error().text.find("fuzz.toml") != std::string::npos);
}

std::vector<std::string_view> seed_inputs() {
  return {R"(
[stores.orders]
url = "sqlite:orders.db"
payload_max = "1MiB"
topics = ["order.events"]
[stores.stock]
url = "sqlite:stock.db"
[relays.orders-to-stock]
from = "orders"
to = "stock"
topic = "{aggregate_type}.events"
lease = "10s"
[retention]
sent = "7d"
[log]
format = "json"
level = "info"
)",
          "[stores]\n[relays.x]\nfrom = 1\n", "log = 3\n", "[stores.a]\nurl = \"\\u0000\"\n"};
}
