// A statement with its parameters in libpq's form, and the answers to it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "postgres/connection/connection.h"

namespace dovetail::postgres {

// The texts of `params` must stay valid as long as this object.
class Statement {
 public:
  Statement(std::string_view sql, const Params& params);

  // False: the connection is lost, or busy.
  bool send(pg_conn* connection) const;
  // The text is the name of a prepared statement.
  bool send_prepared(pg_conn* connection, bool binary_rows = true) const;
  // Under a name; empty: the unnamed statement.
  bool send_prepare(pg_conn* connection, const std::string& name = {}) const;

 private:
  std::string sql_;
  std::vector<std::uint32_t> types_;
  std::vector<const char*> values_;
  std::vector<int> lengths_;
  std::vector<int> formats_;
};

bool succeeded(const pg_result* result);

// Reads the answers of all statements: the first error, else the last result. Null: no answer.
// REQUIRES: the connection does not block.
pg_result* take_results(pg_conn* connection, std::chrono::steady_clock::time_point end);

}  // namespace dovetail::postgres
