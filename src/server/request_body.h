// The body of an HTTP/1 request, out of pieces of any size.
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

  // Takes off `bytes` what belongs to the request, and appends what it carries to `out`. A fault
  // ends the request; nothing behind it can be understood.
  std::optional<HeadFault> take(std::string_view& bytes, std::string& out);
  bool is_done() const { return step_ == Step::done; }

 private:
  // Of chunked bodies; a body with a length is one chunk with nothing around it.
  enum class Step : std::uint8_t { size, data, data_end, trailers, done };

  std::optional<HeadFault> take_line(std::string_view& bytes, bool& is_whole);
  std::optional<HeadFault> take_size();
  void take_data(std::string_view& bytes, std::string& out);

  Step step_ = Step::done;
  bool is_chunked_ = false;
  std::uint64_t left_ = 0;       // of the chunk
  std::string line_;             // that is not whole
  std::size_t extra_bytes_ = 0;  // of chunk extensions and trailers
};

}  // namespace dovetail::http
