#include "server/request_body.h"

#include <algorithm>
#include <charconv>

#include "server/header_field.h"

namespace dovetail::http {

namespace {

// Chunk extensions and trailers are checked and discarded.
constexpr std::size_t kExtraBytesMax = 4096;
constexpr std::size_t kSizeDigitsMax = 15;  // fits into 63 bits

}  // namespace

BodyReader::BodyReader(const RequestHead& head) : is_chunked_(head.is_chunked) {
  if (head.is_chunked) {
    step_ = Step::size;
  } else if (head.length > 0) {
    step_ = Step::data;
    left_ = head.length;
  }
}

// Appends to `line_` up to the line end, without it.
std::optional<HeadFault> BodyReader::take_line(std::string_view& bytes, bool& is_whole) {
  const std::size_t feed = bytes.find('\n');
  const std::size_t count = feed == std::string_view::npos ? bytes.size() : feed + 1;
  extra_bytes_ += count;
  if (extra_bytes_ > kExtraBytesMax)
    return HeadFault{400, "chunk extensions or trailers are too long"};
  line_.append(bytes.substr(0, count));
  bytes.remove_prefix(count);
  is_whole = feed != std::string_view::npos;
  if (!is_whole) return std::nullopt;
  if (!line_.ends_with("\r\n"))
    return HeadFault{400, "a chunk header or trailer does not end with CR and LF"};
  line_.resize(line_.size() - 2);
  return std::nullopt;
}

std::optional<HeadFault> BodyReader::take_size() {
  const std::size_t end = std::min(line_.find_first_not_of("0123456789abcdefABCDEF"), line_.size());
  if (end == 0 || end > kSizeDigitsMax)
    return HeadFault{400, "the size of a chunk is not a hexadecimal number"};
  const std::string_view extension = std::string_view(line_).substr(end);
  // RFC 9112, 7.1.1: blanks are allowed only before the semicolon.
  const std::size_t mark = extension.find_first_not_of(" \t");
  if (!extension.empty() &&
      (mark == std::string_view::npos || extension[mark] != ';' || !is_field_value(extension)))
    return HeadFault{400, "a chunk size is followed by something other than an extension"};
  std::from_chars(line_.data(), line_.data() + end, left_, 16);
  extra_bytes_ -= std::min(extra_bytes_, end + 2);  // counts only what a client could leave out
  line_.clear();
  step_ = left_ == 0 ? Step::trailers : Step::data;
  return std::nullopt;
}

void BodyReader::take_data(std::string_view& bytes, std::string& out) {
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(left_, bytes.size()));
  out.append(bytes.substr(0, count));
  bytes.remove_prefix(count);
  left_ -= count;
  if (left_ == 0) step_ = is_chunked_ ? Step::data_end : Step::done;
}

std::optional<HeadFault> BodyReader::take(std::string_view& bytes, std::string& out) {
  while (step_ != Step::done && !bytes.empty()) {
    if (step_ == Step::data) {
      take_data(bytes, out);
      continue;
    }
    bool is_whole = false;
    if (auto wrong = take_line(bytes, is_whole)) return wrong;
    if (!is_whole) break;
    if (step_ == Step::size) {
      if (auto wrong = take_size()) return wrong;
      continue;
    }
    if (step_ == Step::data_end) {
      if (!line_.empty()) return HeadFault{400, "a chunk is longer than its size"};
      extra_bytes_ -= std::min<std::size_t>(extra_bytes_, 2);
      step_ = Step::size;
      continue;
    }
    if (line_.empty()) {
      step_ = Step::done;
      break;
    }
    std::vector<MessageHeader> trailer;
    if (auto wrong = parse_fields(line_, trailer)) return wrong;
    line_.clear();
  }
  return std::nullopt;
}

}  // namespace dovetail::http
