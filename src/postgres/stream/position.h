// A position in the server's WAL.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "dovetail/result.h"

namespace dovetail::postgres {

struct WalPosition {
  std::uint64_t value = 0;  // 0: before everything

  friend auto operator<=>(const WalPosition&, const WalPosition&) = default;
};

// In the server's form, "16/B374D848".
std::string to_string(WalPosition position);
Result<WalPosition> parse_wal_position(std::string_view text);

}  // namespace dovetail::postgres
