// Any text as configuration gives a configuration or an error that names the file.
#include "ops/config.h"

#include "fuzz/fuzz.h"

void check_input(std::string_view input) {
  const auto config = dovetail::ops::parse_config(input, "fuzz.toml");
  if (!config) FUZZ_REQUIRE(config.error().text.find("fuzz.toml") != std::string::npos);
}

std::vector<std::string_view> seed_inputs() {
  return {R"(
[store.orders]
url = "sqlite:orders.db"
payload_max = "1MiB"
topics = ["order.events"]
[store.bus]
url = "rediss://host:6379/1"
user = "shop"
password_env = "SECRET"
ca_file = "ca.pem"
format = "debezium"
key = "{aggregate_type}/{aggregate_id}"
read = ["orders"]
group = "stock"
id_header = "x-id"
headers = { tenant = "{header.tenant}" }
[store.bus.settings]
window = 3
[[relay]]
name = "orders-to-bus"
from = "orders"
to = "bus"
topic = "{aggregate_type}.events"
lease = "10s"
[retention]
sent = "7d"
[log]
format = "json"
level = "info"
)",
          "[store]\n[[relay]]\nfrom = 1\n",
          "log = 3\n",
          "[store.a]\nurl = \"\\u0000\"\n",
          "[store.a]\nurl = \"kafka://[::1]:9092,b:1\"\n",
          "[store.a]\nurl = \"https://u:p@h/x?y#z\"\n"};
}
