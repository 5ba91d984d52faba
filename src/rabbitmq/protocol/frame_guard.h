// Stands before rabbitmq-c, which decodes nested tables by calling itself: headers that somebody
// has nested some thousand times would end the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "dovetail/result.h"

namespace dovetail::rabbitmq {

inline constexpr std::size_t kNestingMax = 32;
// Stands in the place of headers that are nested deeper, or are malformed.
inline constexpr std::string_view kUnreadableHeaders = "dovetail.unreadable-headers";

// The length of the field table that begins at `at`, with the four bytes of its size. 0: it is
// malformed, or nested deeper than kNestingMax. Calls nothing again and again.
std::size_t shallow_table_bytes(std::string_view bytes, std::size_t at);

// Finds frames in what comes from a server, and lets only those through that are safe to decode.
// One thread at a time; for one connection.
class FrameGuard {
 public:
  // Takes bytes off `bytes`, and gives what may be decoded of them and of those before, until the
  // next call. unavailable: no server of AMQP says this.
  Result<std::string_view> next(std::string_view& bytes);

 private:
  Status check();
  Status check_method() const;
  void check_properties();

  std::string frame_;     // held until it is whole
  std::size_t rest_ = 0;  // of a frame that passes as it comes
  bool is_foreign_ = false;
  bool is_given_ = false;  // frame_ was given, and is to be forgotten
};

}  // namespace dovetail::rabbitmq
