// Checks frames before rabbitmq-c decodes them. It decodes nested tables recursively: headers
// nested thousands of levels deep would crash the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "dovetail/result.h"

namespace dovetail::rabbitmq {

inline constexpr std::size_t kNestingMax = 32;
// Replaces headers that are malformed or nested too deep.
inline constexpr std::string_view kUnreadableHeaders = "dovetail.unreadable-headers";

// The length of the field table at `at`, including the four bytes of its size. 0: malformed, or
// deeper than kNestingMax. Does not recurse.
std::size_t shallow_table_bytes(std::string_view bytes, std::size_t at);

// Finds frames in the bytes from a server and passes on those that are safe to decode. One thread
// at a time; for one connection.
class FrameGuard {
 public:
  // Removes bytes from `bytes` and returns what may be decoded, valid until the next call.
  // unavailable: this is not AMQP.
  Result<std::string_view> next(std::string_view& bytes);

 private:
  Status check();
  Status check_method() const;
  void check_properties();

  std::string frame_;     // held until complete
  std::size_t rest_ = 0;  // of a frame that is passed on unchanged
  bool is_foreign_ = false;
  bool is_given_ = false;  // frame_ was returned and can be dropped
};

}  // namespace dovetail::rabbitmq
