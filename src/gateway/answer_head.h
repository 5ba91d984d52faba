// The head of a service's answer, as it comes line by line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/event.h"

namespace dovetail::http {

class AnswerHead {
 public:
  // A line with its end. What follows the head, such as trailers, is ignored. False: the head is
  // larger than 64 KiB.
  bool take(std::string_view line);

  int status() const { return status_; }
  bool is_whole() const { return is_whole_; }
  std::optional<std::uint64_t> length() const { return length_; }  // as the service said
  // Without the fields of the connection.
  std::vector<Header> headers() const;

 private:
  int status_ = 0;
  bool is_whole_ = false;
  std::size_t bytes_ = 0;
  std::optional<std::uint64_t> length_{};
  std::vector<Header> headers_{};
  std::vector<std::string> connection_{};  // names in the field Connection
};

// Fields of one connection (RFC 9110, 7.6.1), and fields that each side writes itself.
// `connection`: the values of the field Connection, which names more.
bool is_of_connection(std::string_view lower_name, const std::vector<std::string>& connection);
// Adds the names in a value of the field Connection, in small letters.
void add_names(std::string_view value, std::vector<std::string>& names);

}  // namespace dovetail::http
