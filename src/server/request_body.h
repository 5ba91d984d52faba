// Reads the body of an HTTP/1 request from pieces of any size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/request_head.h"

namespace dovetail::http {

// One thread at a time; for one request.
class BodyReader {
 public:
  BodyReader() = default;
  explicit BodyReader(const RequestHead& head);

  // Removes the request's bytes from `bytes`, and appends its content to `out`. A fault ends the
  // request; nothing after it can be understood.
  std::optional<HeadFault> take(std::string_view& bytes, std::string& out);
  bool is_done() const { return step_ == Step::done; }

 private:
  // The steps of a chunked body. A body with a length is one chunk without framing.
  enum class Step : std::uint8_t { size, data, data_end, trailers, done };

  std::optional<HeadFault> take_line(std::string_view& bytes, bool& is_whole);
  std::optional<HeadFault> take_size();
  void take_data(std::string_view& bytes, std::string& out);

  Step step_ = Step::done;
  bool is_chunked_ = false;
  std::uint64_t left_ = 0;       // of the chunk
  std::string line_;             // not complete yet
  std::size_t extra_bytes_ = 0;  // of chunk extensions and trailers
};

}  // namespace dovetail::http
