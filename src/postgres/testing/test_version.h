// The PostgreSQL version of a test, to skip what older ones cannot do.
#pragma once

#include "postgres/testing/test_database.h"

namespace dovetail::postgres {

inline bool is_before(Connection& connection, int major) {
  return number(connection, "current_setting('server_version_num')") < major * 10'000;
}

}  // namespace dovetail::postgres
