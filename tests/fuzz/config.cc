// Any configuration text gives a configuration, or an error that names the file.
#include "config/config.h"

#include "fuzz/fuzz.h"

void check_input(std::string_view input) {
  const auto config = dovetail::config::parse_config(input, "fuzz.toml");
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
delivered = "7d"
[log]
format = "json"
level = "info"
)",
          R"(
[store.shop]
url = "postgres:host=localhost dbname=shop"
password_file = "p"
[store.hook]
url = "http://127.0.0.1:8080/events"
[store.hook.settings]
secret_env = "S"
signature_age_max = "5m"
[[relay]]
name = "table"
from = "shop"
to = "hook"
mode = "auto"
[relay.table]
preset = "debezium"
name = "public.outbox"
pending = ["status = NEW|AGAIN", "sent_at is null"]
when_delivered = "status = SENT"
header_columns = { trace-id = "trace" }
[[consumer]]
name = "stock"
from = "hook"
to = "shop"
parallel = 4
[[consumer.handler]]
kind = "sql"
function = "apply"
types = ["a", "b*"]
[[consumer.handler]]
kind = "command"
command = ["/bin/true", "-x"]
)",
          R"(
[store.a]
url = "sqlite:a.db"
[gateway]
listen = "[::1]:0"
service = "https://x/y"
store = "a"
client = ["Cookie"]
trusted_proxies = ["10.0.0.0/8"]
released = [429, 503]
methods = ["POST"]
on_unknown = "retry"
keep = "24h"
)",
          "a = [[[[[[[[[[[[[[[[[[[[{b={c=1}}]]]]]]]]]]]]]]]]]]]]\n",
          "[store]\n[[relay]]\nfrom = 1\n",
          "log = 3\n",
          "[store.a]\nurl = \"\\u0000\"\n",
          "[store.a]\nurl = \"kafka://[::1]:9092,b:1\"\n",
          "[store.a]\nurl = \"https://u:p@h/x?y#z\"\n"};
}
