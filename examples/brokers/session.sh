#!/usr/bin/env bash
# Two services that know each other by a broker alone: orders.db -> Redis -> inventory.db. In the current folder.
#
#   session.sh [HOST:PORT]     of a Redis server; 127.0.0.1:6379 unless given
#
# dovetail, order_service and inventory_service are found on the PATH.
set -euo pipefail

cat >dovetail.toml <<END
[store.orders]
url = "sqlite:orders.db"

[store.bus]
url = "redis://${1:-127.0.0.1:6379}/0"
source = "/shop/orders"            # who publishes, in every message
read = ["orders.events"]           # the stream that the other relay reads

[store.inventory]
url = "sqlite:inventory.db"

[[relay]]
name = "orders-to-bus"             # runs beside the order service
from = "orders"
to = "bus"

[[relay]]
name = "bus-to-inventory"          # runs beside the inventory service
from = "bus"
to = "inventory"
END

dovetail init
dovetail doctor --store bus || true   # what is unsafe about this server

order_service orders.db               # an order and its event, in one transaction
dovetail run orders-to-bus --until-idle
dovetail run bus-to-inventory --until-idle --idle-after 1s
inventory_service inventory.db --until-quiet
dovetail status
