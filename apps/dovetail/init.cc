#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "commands.h"
#include "output.h"
#include "sqlite/admin.h"

namespace dovetail::app {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFirstConfig =
    R"(# Dovetail: which databases there are, and which relays run between them.

[store.orders]
url = "sqlite:orders.db"         # a path, relative to this file
# payload_max = "1MiB"           # a larger payload is rejected when it is published

[store.inventory]
url = "sqlite:inventory.db"
# topics = ["orders.events"]     # the only topics that its mailbox accepts; without it, all

[[relay]]
name = "orders-to-inventory"     # also the name of its progress and its lease: keep it
from = "orders"                  # its outbox is read
to = "inventory"                 # its mailbox is filled
topic = "{aggregate_type}.events"  # also {type}, {aggregate_id}, {content_type}
# attempts_max = 5               # failures of one event before it is parked
# lease = "10s"                  # how long a stand-by waits after this relay died
# retry_base = "50ms"            # the first wait after a failure; doubles, with jitter,
# retry_cap = "30s"              # up to this
# batch_events = 1000            # in one transaction of the mailbox
# window_events = 8000           # read and not settled; also the most duplicates after a crash

[retention]
sent = "7d"                      # delivered events are deleted after this
inbox = "30d"                    # ids are remembered this long to recognise duplicates

[log]
format = "text"                  # or "json"
# level = "info"                 # debug, info, warn, error
)";

// True: written. False: there was one already, perhaps made by somebody else a moment ago.
Expected<bool> write_first_config(const fs::path& file) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    if (errno == EEXIST) return false;
    return refuse(Exit::unavailable, file.string() + ": cannot be written (" +
                                         std::strerror(errno) +
                                         "); check the folder and its permissions");
  }
  const ssize_t written = ::write(descriptor, kFirstConfig.data(), kFirstConfig.size());
  const bool whole = written == static_cast<ssize_t>(kFirstConfig.size());
  if (::close(descriptor) != 0 || !whole) {
    ::unlink(file.c_str());
    return refuse(Exit::unavailable, file.string() + ": cannot be written whole; check the disk");
  }
  return true;
}

}  // namespace

Answer init(const Surroundings& around) {
  const auto written = write_first_config(around.config_file);
  if (!written) return tl::unexpected(written.error());
  const auto config = load(around);
  if (!config) return tl::unexpected(config.error());

  Json stores = Json::array();
  std::string text;
  if (*written) text += "wrote " + around.config_file.string() + "\n";
  for (const ops::StoreConfig& store : config->stores) {
    std::error_code ignored;
    const bool existed = fs::exists(store.path, ignored);
    if (const auto made = sqlite::create_store(store.path.string()); !made) {
      return refuse_in(store, made.error());
    }
    stores.push_back({{"name", store.name}, {"path", store.path.string()}, {"created", !existed}});
    text += "store " + store.name + ": " + store.path.string() +
            (existed ? " is up to date\n" : " created\n");
  }
  if (around.json) {
    print_json(
        {{"config", around.config_file.string()}, {"written", *written}, {"stores", stores}});
  } else {
    print(text);
  }
  return Exit::ok;
}

}  // namespace dovetail::app
