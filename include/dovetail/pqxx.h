// Publishes inside a libpqxx transaction. Include <pqxx/pqxx> first and link dovetail's library. A
// bare connection does not compile: an event without a transaction would not commit together with
// anything.
#pragma once

#include <string>
#include <type_traits>

#include "dovetail/event.h"
#include "dovetail/result.h"

namespace pqxx {
class transaction_base;
}  // namespace pqxx

namespace dovetail::postgres {

namespace detail {

inline std::string hex_of(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "\\x";
  out.reserve(2 + 2 * bytes.size());
  for (const char c : bytes) {
    out += kDigits[static_cast<unsigned char>(c) >> 4];
    out += kDigits[static_cast<unsigned char>(c) & 0xf];
  }
  return out;
}

}  // namespace detail

// Keeps the promises of publish() in dovetail/postgres.h, except that libpqxx waits for the server
// without a limit: set tcp_user_timeout and statement_timeout for the connection. An error from the
// server is an exception of libpqxx, as for any other statement of the transaction.
template <class Transaction>
  requires std::is_base_of_v<pqxx::transaction_base, Transaction>
Result<EventId> publish(Transaction& transaction, const NewEvent& event,
                        const EventLimits& limits = {}) {
  DOVETAIL_TRY(validate(event, limits));
  const Result<std::string> headers = encode_headers(event.headers);
  if (!headers) return fail(headers.error());
  const std::string id = event.id ? event.id->to_string() : std::string();
  const auto rows = transaction.exec_params(
      "SELECT dovetail.publish($1::text, $2::text, $3::text, $4::bytea, nullif($5, '')::jsonb, "
      "$6::text, nullif($7, '')::uuid, $8::bigint, NULL, $9::text)::text",
      std::string(event.aggregate_type), std::string(event.aggregate_id), std::string(event.type),
      detail::hex_of(event.payload), *headers, std::string(event.topic), id,
      event.aggregate_version, std::string(event.content_type));
  return EventId::parse(rows[0][0].c_str());
}

}  // namespace dovetail::postgres
