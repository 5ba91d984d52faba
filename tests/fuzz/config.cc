// Any configuration text gives a configuration, or an error that names the file and shows no value
// of a variable.
#include "config/config.h"

#include <cstdlib>
#include <string>

#include "core/ascii.h"
#include "fuzz/fuzz.h"
#include "server/header_field.h"

namespace {

constexpr std::string_view kValue = "Qz7Vx9Kp2Wm4Jt6Rb8Yn3Hd5";
constexpr std::size_t kPiece = 6;  // as much of it would be a hint

// Also in other letters, as hosts are shown, or cut off.
bool shows_value(std::string_view text) {
  const std::string lower = dovetail::to_lower(text);
  const std::string value = dovetail::to_lower(kValue);
  for (std::size_t at = 0; at + kPiece <= value.size(); ++at)
    if (lower.find(value.substr(at, kPiece)) != std::string::npos) return true;
  return false;
}

constexpr std::string_view kBroker = R"(
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
)";

constexpr std::string_view kTableAndConsumer = R"(
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
)";

constexpr std::string_view kGateway = R"(
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
)";

constexpr std::string_view kVariables = R"(
[store.shop]
url = "sqlite:${SECRET}.db"
[store.bus]
url = "${URL}"
password_env = "${SECRET}"
headers = { x = "$${a}${SECRET}" }
[[relay]]
name = "a"
from = "shop"
to = "bus"
start_at = "now"
topics = ["order.*", "!${SECRET}"]
types = ["*.${SECRET}", "a"]
headers = ["x=${SECRET}*"]
[http]
listen = "127.0.0.1:0"
tokens_file = "${SECRET}"
without_token = "nobody"
hosts = ["${SECRET}", "dovetail.example"]
[alerts]
to = "bus"
away_max = "5m"
lag_max = "10m"
)";

constexpr std::string_view kSecrets = R"(
[store.hook]
url = "https://hooks.example/${SECRET}?k={aggregate_id}"
[http]
listen = "${SECRET}"
[alerts]
to = "${SECRET}"
)";

}  // namespace

void check_input(std::string_view input) {
  static const bool is_set = [] {
    setenv("SECRET", std::string(kValue).c_str(), 1);
    setenv("URL", ("redis://" + std::string(kValue) + ":6379/0").c_str(), 1);
    return true;
  }();
  (void)is_set;
  const auto config = dovetail::config::parse_config(input, "fuzz.toml");
  if (config) return;
  const std::string& error = config.error().text;
  FUZZ_REQUIRE(error.find("fuzz.toml") != std::string::npos);
  FUZZ_REQUIRE(shows_value(input) || !shows_value(error));
}

std::vector<std::string_view> seed_inputs() {
  return {kBroker,
          kTableAndConsumer,
          kGateway,
          kVariables,
          kSecrets,
          "[[relay]]\nname = \"${SECRET}\"\nfrom = \"${NO_SUCH}\"\nto = \"${\"\n",
          "a = [[[[[[[[[[[[[[[[[[[[{b={c=1}}]]]]]]]]]]]]]]]]]]]]\n",
          "[store]\n[[relay]]\nfrom = 1\n",
          "log = 3\n",
          "[store.a]\nurl = \"\\u0000\"\n",
          "[store.a]\nurl = \"kafka://[::1]:9092,b:1\"\n",
          "[store.a]\nurl = \"https://u:p@h/x?y#z\"\n"};
}
