// Statements on a connection of the application, which wait for the server for a limited time.
#pragma once

#include <chrono>
#include <string_view>

#include "postgres/connection/connection.h"

namespace dovetail::postgres {

// How long a call on the application's connection waits: set_time_limit().
Duration time_limit();

// One call. Meanwhile no function of libpq blocks. If the server does not answer in time, an answer
// may still come, so the connection is cut and cannot be used any more.
class Call {
 public:
  explicit Call(pg_conn* connection, Duration limit = time_limit());
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call();  // the connection blocks again if it did before

  // The answer to what was sent: the first error, else the last result.
  Rows finish(bool sent);
  // The same for `statements` in pipeline mode; the last one is COMMIT. After PQpipelineSync.
  Status finish_pipeline(bool sent, std::size_t statements);
  Error error(const pg_result* result, bool during_commit = false,
              std::string_view rights_hint = {}) const;

 private:
  bool wait();
  void cut();

  pg_conn* connection_;
  Duration limit_;
  std::chrono::steady_clock::time_point end_;
  bool did_block_;
  bool is_late_ = false;
};

// Any number of statements without parameters.
Status run_script(pg_conn* connection, std::string_view sql, Duration limit,
                  std::string_view rights_hint = {});

}  // namespace dovetail::postgres
