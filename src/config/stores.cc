#include "config/stores.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "config/brokers.h"
#include "config/tables.h"

namespace dovetail::config {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSqlite = "sqlite:";

// The libpq part of "postgres:KEY=VALUE ...", "postgres://..." or "postgresql://...".
std::optional<std::string> conninfo_of(const std::string& url) {
  if (url.starts_with("postgres://") || url.starts_with("postgresql://")) return url;
  for (const std::string_view scheme : {"postgres:", "postgresql:"}) {
    if (url.starts_with(scheme)) return url.substr(scheme.size());
  }
  return std::nullopt;
}

void declare_topmost(StoreConfig& store, Settings& keys, std::string url_help,
                     std::function<std::string(std::string)> take_url) {
  keys.parsed("url", "url", std::move(take_url), std::move(url_help)).required();
  keys.size("payload_max", store.payload_bytes_max, 1,
            "A larger payload is rejected when it is published. Every broker accepts the default "
            "size in its own default configuration.");
}

void read_store(Section& section, StoreConfig& store, const fs::path& file) {
  const fs::path folder = file.parent_path();
  if (!is_plain_name(store.name)) section.wrong_here(kNameForm);
  const std::string url = section.peek("url");
  if (is_broker_url(url)) return read_broker(section, store, file);
  Settings keys;
  const bool is_postgres = conninfo_of(url).has_value();
  if (!is_postgres && !url.empty() && (!url.starts_with(kSqlite) || url.size() == kSqlite.size())) {
    // It is unknown which keys are allowed here, so they are not checked.
    return section.wrong("url",
                         "must be \"sqlite:PATH\", \"postgres:KEY=VALUE ...\" or "
                         "\"postgres://...\", or that of a broker: " +
                             broker_prefixes());
  }
  if (is_postgres)
    declare_postgres(store, folder, keys);
  else
    declare_sqlite(store, folder, keys);
  section.read(keys);
  check_password(section);
  store.where = section.place("url");
  if (section.has("replication_url")) store.replication_where = section.place("replication_url");
}

}  // namespace

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

void declare_sqlite(StoreConfig& store, const fs::path& folder, Settings& keys) {
  declare_topmost(store, keys, "`sqlite:PATH`.", [&store, folder](const std::string& url) {
    store.path = (folder / url.substr(kSqlite.size())).lexically_normal();
    store.shown = store.path.string();
    return std::string();
  });
  keys.texts("topics", store.topics,
             "The only topics that the mailbox of this store accepts. An event for another topic "
             "is parked.")
      .otherwise("all");
  for (const char* key : {"password_env", "password_file"})
    keys.removed(key, "a SQLite store has no password; remove it");
  keys.removed("replication_url", "a SQLite store has no replication; remove it");
}

void declare_postgres(StoreConfig& store, const fs::path& folder, Settings& keys) {
  declare_topmost(store, keys,
                  "`postgres:` with anything that libpq accepts: `postgres:host=db dbname=shop "
                  "user=relay`, `postgres://relay@db/shop`.",
                  [&store](const std::string& url) {
                    store.scheme = StoreScheme::postgres;
                    store.conninfo = conninfo_of(url).value_or("");
                    return std::string();
                  });
  keys.text("password_env", store.password_env,
            "The environment variable that holds the password.");
  keys.file("password_file", store.password_file, folder,
            "The file whose first line is the password.");
  keys.parsed(
          "replication_url", "url",
          [&store](const std::string& url) -> std::string {
            const auto conninfo = conninfo_of(url);
            store.replication_conninfo = conninfo.value_or("");
            // The text may contain a secret by mistake, so it is not quoted.
            if (conninfo) return {};
            return "must be \"postgres:KEY=VALUE ...\" or \"postgres://...\", and lead to the same "
                   "database as url, past any pooler";
          },
          "A url of the same database that bypasses a pooler. A relay reads the WAL through it, "
          "with the password of `url`.")
      .otherwise("`url`");
  keys.removed("topics", "a PostgreSQL store has no mailbox that could refuse topics; remove it");
}

void read_stores(Section& root, Config& config) {
  if (!root.has("store")) return root.wrong_here("needs at least one [store.NAME]");
  root.named_tables("store", [&](const std::string& name, Section& section) {
    StoreConfig store;
    store.name = name;
    read_store(section, store, config.file);
    config.stores.push_back(std::move(store));
  });
}

void check_store_name(Section& section, std::string_view key, const std::string& name,
                      const Config& config) {
  if (name.empty() || config.find_store(name) != nullptr) return;
  std::vector<std::string_view> known;
  for (const StoreConfig& store : config.stores) known.push_back(store.name);
  const std::string_view near = nearest_name(name, known);
  std::string what = "no store is called " + in_quotes(name) + "; ";
  if (!near.empty()) what += "did you mean " + in_quotes(near) + "? ";
  section.wrong(key, what + "Stores: " + (known.empty() ? "none" : join(known)));
}

std::string why_lacks(const StoreConfig* store, bool StoreType::* ability) {
  if (store == nullptr || store->type().*ability) return {};
  return "the store " + in_quotes(store->name) + " is " + std::string(store->type().name);
}

void only_for_stores(Setting& setting, bool StoreType::* ability, FindStore store) {
  setting.only_for(kinds_with(ability),
                   [ability, store = std::move(store)] { return why_lacks(store(), ability); });
}

void check_password(Section& section) {
  if (section.has("password_env") && section.has("password_file"))
    section.wrong("password_file", "there is password_env too; keep one of them");
}

void check_pair(Section& section, std::string_view cert, std::string_view key) {
  if (section.has(cert) != section.has(key))
    section.wrong(section.has(cert) ? cert : key,
                  "a certificate and its key come together; write " + std::string(cert) + " and " +
                      std::string(key));
}

}  // namespace dovetail::config
