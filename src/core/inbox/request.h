// HTTP requests that run once: the rules that all stores share, and the interface of a
// store.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/clock.h"
#include "dovetail/idempotency.h"
#include "dovetail/result.h"

namespace dovetail {

// The scope of keys: one service and one of its clients. `identity` names the client and may be a
// secret: only its digest is kept. Empty: clients are not told apart.
std::string request_scope(std::string_view service, std::string_view identity);

// A key for logs: the same for the same key, but the key cannot be found from it.
std::string shown_key(std::string_view key);

// The row of a request in a store.
struct RequestRow {
  bool is_finished = false;
  bool is_leased = false;   // its lease is running
  bool is_expired = false;  // its time to be kept is over
  bool same_fingerprint = true;
  bool same_token = false;
};
// `first`: the caller takes the request over, or owns it already by its token. An expired row that
// is not running counts as missing.
RequestState decide_request(const RequestRow& row, bool retry_unknown);

// Requests in a database. One thread at a time. Each call is its own transaction and durable when
// it returns. After unavailable or in_doubt, open() and repeat the call: that is harmless.
class RequestStore {
 public:
  virtual ~RequestStore() = default;

  virtual Status open() = 0;
  // `token`: new for each request; the same when the call is repeated after an error.
  virtual Result<RequestTicket> begin(const RequestKey& request, const RequestTerms& terms,
                                      const EventId& token) = 0;
  // False: another process has taken the request over and may have repeated the work.
  virtual Result<bool> finish(const RequestKey& request, const EventId& token,
                              const StoredResponse& response) = 0;
  // No work was done: the next request with this key runs.
  virtual Result<bool> release(const RequestKey& request, const EventId& token) = 0;
  // The outcome will stay unknown: ends the lease at once.
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
