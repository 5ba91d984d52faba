// HTTP requests that are applied once: what every store decides alike, and the interface of a
// store.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/clock.h"
#include "dovetail/idempotency.h"
#include "dovetail/result.h"

namespace dovetail {

// Whose keys they are: those of one service, and of one client of it. `identity` is what the client
// is known by, perhaps a secret: only its digest is kept. Empty: clients are not told apart.
std::string request_scope(std::string_view service, std::string_view identity);

// A key as logs may show it: the same for the same key, and no way back to it.
std::string shown_key(std::string_view key);

// What a store knows of a request that it has a row of.
struct RequestRow {
  bool is_finished = false;
  bool is_leased = false;   // its lease has not ended
  bool is_expired = false;  // it was to be kept until now
  bool same_fingerprint = true;
  bool same_token = false;
};
// `first`: the caller takes it over, or has it already by its token. A row that is expired, and not
// running, counts as none at all.
RequestState decide_request(const RequestRow& row, bool retry_unknown);

// Requests in a database. One thread at a time. Each call is a transaction of its own and durable
// when it returns; unavailable and in_doubt: open() again, and the same call again is harmless.
class RequestStore {
 public:
  virtual ~RequestStore() = default;

  virtual Status open() = 0;
  // `token`: new for each request, the same when the call is repeated after an error.
  virtual Result<RequestTicket> begin(const RequestKey& request, const RequestTerms& terms,
                                      const EventId& token) = 0;
  // False: another has taken the request over, who may have done it too.
  virtual Result<bool> finish(const RequestKey& request, const EventId& token,
                              const StoredResponse& response) = 0;
  // Nothing was done: the next request with this key runs.
  virtual Result<bool> release(const RequestKey& request, const EventId& token) = 0;
  // Nobody will ever know what was done: ends the lease at once.
  virtual Result<bool> abandon(const RequestKey& request, const EventId& token) = 0;
};

// A request as an operator sees it.
struct RequestInfo {
  std::string scope;
  std::string key;
  RequestState state = RequestState::unknown;
  std::uint32_t attempts = 0;
  int status = 0;  // 0: not finished
  WallTime created_at{};
  WallTime expires_at{};
};
struct RequestFilter {
  std::optional<RequestState> state{};
  std::size_t limit = 50;
};

}  // namespace dovetail
