#include "postgres/connection/conninfo.h"

#include <libpq-fe.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "core/handle.h"

namespace dovetail::postgres {

namespace {

void add_pair(std::string& pairs, std::string_view keyword, std::string_view value) {
  if (!pairs.empty()) pairs += ' ';
  pairs += keyword;
  pairs += "='";
  for (const char c : value) {
    if (c == '\'' || c == '\\') pairs += '\\';
    pairs += c;
  }
  pairs += '\'';
}

constexpr std::array<std::string_view, 6> kShown = {"service", "host",   "hostaddr",
                                                    "port",    "dbname", "user"};

Status refuse_secrets(std::string_view keyword, std::string_view value) {
  if (keyword == "password")
    return fail(Errc::rejected,
                "the url must not contain a password; put it into the file that PGPASSFILE names, "
                "or set password_env = \"NAME\" or password_file = \"path\"");
  if (keyword == "sslpassword")
    return fail(Errc::rejected,
                "the url must not contain sslpassword; put it into the file that PGSERVICEFILE "
                "names, and the service's name into the url");
  // libpq would read such a name as connection settings.
  if (keyword == "dbname" && value.find_first_of("=:") != std::string_view::npos)
    return fail(Errc::rejected,
                "dbname must be the plain name of a database, without '=' and ':'; check it");
  return {};
}

// libpq checks these only when it connects. Without a check here, a relay would wait for a server
// that it can never reach.
struct Choice {
  std::string_view keyword;
  std::string_view allowed;
};
constexpr std::array<Choice, 2> kChoices = {
    {{"sslmode", " disable allow prefer require verify-ca verify-full "},
     {"target_session_attrs", " any read-write read-only primary standby prefer-standby "}}};

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= 9 &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

Status check_value(std::string_view keyword, std::string_view value) {
  for (const Choice& choice : kChoices)
    if (keyword == choice.keyword &&
        choice.allowed.find(" " + std::string(value) + " ") == std::string_view::npos)
      return fail(Errc::rejected,
                  std::string(keyword) + " must be one of:" +
                      std::string(choice.allowed.substr(0, choice.allowed.size() - 1)) +
                      "; check it");
  if (keyword == "connect_timeout" && !is_number(value))
    return fail(Errc::rejected, "connect_timeout must be a number of seconds; check it");
  if (keyword != "port") return {};
  // One for each host.
  for (std::size_t begin = 0; begin <= value.size();) {
    const std::size_t end = std::min(value.find(',', begin), value.size());
    const std::string_view one = value.substr(begin, end - begin);
    if (!one.empty() && !is_number(one))
      return fail(Errc::rejected, "port must be a number from 1 to 65535; check it");
    begin = end + 1;
  }
  return {};
}

}  // namespace

Result<Conninfo> parse_conninfo(const std::string& text) {
  char* reason = nullptr;
  const Handle<PQconninfoOption, PQconninfoFree> options(PQconninfoParse(text.c_str(), &reason));
  // The error may quote a part of a badly quoted password.
  PQfreemem(reason);
  if (options == nullptr)
    return fail(Errc::rejected,
                "invalid connection settings; use KEY=VALUE pairs with the names of libpq and "
                "'quotes' around values with spaces, or "
                "postgres://USER@HOST:PORT/DATABASE with %-escapes");
  Conninfo conninfo;
  std::string shown;
  for (const PQconninfoOption* option = options.get(); option->keyword != nullptr; ++option) {
    if (option->val == nullptr || *option->val == '\0') continue;
    DOVETAIL_TRY(refuse_secrets(option->keyword, option->val));
    DOVETAIL_TRY(check_value(option->keyword, option->val));
    add_pair(conninfo.keywords, option->keyword, option->val);
    if (std::find(kShown.begin(), kShown.end(), option->keyword) == kShown.end()) continue;
    shown += (shown.empty() ? "" : " ") + std::string(option->keyword) + "=" + option->val;
  }
  conninfo.shown = "postgres:" + shown;
  return conninfo;
}

std::string with_password(const Conninfo& conninfo, const std::string& password) {
  std::string keywords = conninfo.keywords;
  add_pair(keywords, "password", password);
  return keywords;
}

}  // namespace dovetail::postgres
