// Requests that RFC 9112 forbids or that two readers could understand differently. None may pass as
// a request. Each begins with a head; parts in {} follow as they are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dovetail::http {

struct Malformed {
  const char* name;
  std::string bytes;
  int status = 400;
};

inline const std::string kLine = "POST /events HTTP/1.1\r\n";
inline const std::string kHost = "Host: x\r\n";
inline const std::string kKey = "Idempotency-Key: k\r\n";
inline const std::string kStart = kLine + kHost + kKey;

inline std::vector<Malformed> malformed_lengths() {
  return {
      // Where the body ends.
      {"two lengths", kStart + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x"},
      {"the same length twice", kStart + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}"},
      {"a list of lengths", kStart + "Content-Length: 2, 2\r\n\r\n{}"},
      {"a length with a sign", kStart + "Content-Length: +2\r\n\r\n{}"},
      {"a negative length", kStart + "Content-Length: -2\r\n\r\n{}"},
      {"a hexadecimal length", kStart + "Content-Length: 0x2\r\n\r\n{}"},
      {"an empty length", kStart + "Content-Length:\r\n\r\n{}"},
      {"a length of words", kStart + "Content-Length: two\r\n\r\n{}"},
      {"a length in quotes", kStart + "Content-Length: \"2\"\r\n\r\n{}"},
      {"a length and a blank inside", kStart + "Content-Length: 2 2\r\n\r\n{}"},
      {"a length of 70 bits", kStart + "Content-Length: 1180591620717411303424\r\n\r\n{}"},
      {"a blank before the colon", kStart + "Content-Length : 2\r\n\r\n{}"},
      {"a tab before the colon", kStart + "Content-Length\t: 2\r\n\r\n{}"},
      {"length and encoding", kStart + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
                                       "2\r\n{}\r\n0\r\n\r\n"},
      {"encoding and length", kStart + "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n"
                                       "2\r\n{}\r\n0\r\n\r\n"},
      {"another encoding", kStart + "Transfer-Encoding: gzip\r\n\r\n{}"},
      {"encodings in a list", kStart + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
      {"chunked twice", kStart + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"},
      {"chunked and identity", kStart + "Transfer-Encoding: chunked\r\n"
                                        "Transfer-Encoding: identity\r\n\r\n0\r\n\r\n"},
      {"identity", kStart + "Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}"},
      {"an unknown encoding", kStart + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"},
      {"chunked with a tail", kStart + "Transfer-Encoding: chunked;x\r\n\r\n0\r\n\r\n"},
      {"an empty encoding", kStart + "Transfer-Encoding:\r\n\r\n{}"},
      {"a blank before its colon", kStart + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"},
      {"encoding in HTTP/1.0", "POST /events HTTP/1.0\r\n" + kHost + kKey +
                                   "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"},
  };
}

inline std::vector<Malformed> malformed_chunks() {
  using namespace std::string_literals;
  const std::string chunked = kStart + "Transfer-Encoding: chunked\r\n\r\n";
  return {
      // Chunks.
      {"a chunk without a size", chunked + "\r\n{}\r\n0\r\n\r\n"},
      {"a chunk of words", chunked + "two\r\n{}\r\n0\r\n\r\n"},
      {"a chunk with a sign", chunked + "+2\r\n{}\r\n0\r\n\r\n"},
      {"a chunk with 0x", chunked + "0x2\r\n{}\r\n0\r\n\r\n"},
      {"a chunk with a blank before", chunked + " 2\r\n{}\r\n0\r\n\r\n"},
      {"a chunk with a blank behind", chunked + "2 \r\n{}\r\n0\r\n\r\n"},
      {"a chunk that overflows", chunked + "fffffffffffffffff2\r\n{}\r\n0\r\n\r\n"},
      {"a chunk of 64 bits", chunked + "10000000000000002\r\n{}\r\n0\r\n\r\n"},
      {"a chunk that is longer than it says", chunked + "2\r\n{}x\r\n0\r\n\r\n"},
      {"a chunk that is shorter than it says", chunked + "4\r\n{}\r\n0\r\n\r\n"},
      {"a chunk's size with LF alone", chunked + "2\n{}\r\n0\r\n\r\n"},
      {"a chunk's end with LF alone", chunked + "2\r\n{}\n0\r\n\r\n"},
      {"a CR in an extension", chunked + "2;a\rb\r\n{}\r\n0\r\n\r\n"},
      {"a zero in an extension", chunked + "2;a\0b\r\n{}\r\n0\r\n\r\n"s},
      {"extensions without an end", chunked + "2;" + std::string(9000, 'e')},
      {"a trailer without a colon", chunked + "2\r\n{}\r\n0\r\nx\r\n\r\n"},
      {"a trailer with a blank", chunked + "2\r\n{}\r\n0\r\nx : y\r\n\r\n"},
      {"trailers without an end", chunked + "2\r\n{}\r\n0\r\nx: " + std::string(9000, 'y')},
  };
}

inline std::vector<Malformed> malformed_lines() {
  using namespace std::string_literals;
  std::string fields;
  for (int i = 0; i < 129; ++i) fields += "x-" + std::to_string(i) + ": y\r\n";
  return {
      // Lines.
      {"LF alone behind the first line",
       "POST /events HTTP/1.1\n" + kHost + kKey + "Content-Length: 2\r\n\r\n{}"},
      {"LF alone everywhere",
       "POST /events HTTP/1.1\nHost: x\nIdempotency-Key: k\n"
       "Content-Length: 2\n\n{}"},
      {"LF alone behind a header",
       kLine + kHost + "Idempotency-Key: k\nContent-Length: 2\r\n\r\n{}"},
      {"CR alone behind a header",
       kLine + kHost + "X: y\rIdempotency-Key: k\r\nContent-Length: 2\r\n\r\n{}"},
      {"CR alone at the end of a value", kStart + "X: y\r\r\nContent-Length: 2\r\n\r\n{}"},
      {"CR before a name", kStart + "\rContent-Length: 2\r\n\r\n{}"},
      {"a header in two lines", kStart + "X: y\r\n z\r\nContent-Length: 2\r\n\r\n{}"},
      {"a length in two lines", kStart + "Content-Length:\r\n 2\r\n\r\n{}"},
      {"a blank before the first header",
       kLine + " " + kHost + kKey + "Content-Length: 2\r\n\r\n{}"},
      {"a header without a colon", kStart + "X\r\nContent-Length: 2\r\n\r\n{}"},
      {"a header without a name", kStart + ": y\r\nContent-Length: 2\r\n\r\n{}"},
      {"a zero in a value", kStart + "X: a\0b\r\nContent-Length: 2\r\n\r\n{}"s},
      {"a zero in a name", kStart + "X\0: b\r\nContent-Length: 2\r\n\r\n{}"s},
      {"a control character in a value", kStart + "X: a\x01\r\nContent-Length: 2\r\n\r\n{}"},
      {"a parenthesis in a name", kStart + "X(y): a\r\nContent-Length: 2\r\n\r\n{}"},
      {"a name that is not ASCII", kStart + "X\xe9: a\r\nContent-Length: 2\r\n\r\n{}"},
      {"too many headers", kStart + fields + "Content-Length: 2\r\n\r\n{}", 431},
  };
}

inline std::vector<Malformed> malformed_targets() {
  using namespace std::string_literals;
  return {
      // The first line.
      {"no version", "POST /events\r\n" + kHost + kKey + "Content-Length: 2\r\n\r\n{}"},
      {"HTTP/0.9", "GET /events\r\n\r\n"},
      {"HTTP/2 in words",
       "POST /events HTTP/2.0\r\n" + kHost + kKey + "Content-Length: 2\r\n\r\n{}", 505},
      {"the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"a version in small letters", "POST /events http/1.1\r\n" + kHost + kKey + "\r\n"},
      {"a version with more digits", "POST /events HTTP/1.10\r\n" + kHost + kKey + "\r\n"},
      {"two blanks", "POST  /events HTTP/1.1\r\n" + kHost + kKey + "Content-Length: 2\r\n\r\n{}"},
      {"a blank at the end", "POST /events HTTP/1.1 \r\n" + kHost + kKey + "\r\n"},
      {"a blank in the target", "POST /ev ents HTTP/1.1\r\n" + kHost + kKey + "\r\n"},
      {"a tab in the line", "POST\t/events\tHTTP/1.1\r\n" + kHost + kKey + "\r\n"},
      {"a method that is no word", "PO(ST /events HTTP/1.1\r\n" + kHost + kKey + "\r\n"},
      {"no method", " /events HTTP/1.1\r\n" + kHost + kKey + "\r\n"},
      {"two empty lines before", "\r\n\r\n" + kStart + "Content-Length: 2\r\n\r\n{}"},
      {"a target that is not ASCII", "POST /\xc3\xa9 HTTP/1.1\r\n" + kHost + kKey + "\r\n"},
      {"a fragment", "POST /events#x HTTP/1.1\r\n" + kHost + kKey + "\r\n"},
      {"a whole url",
       "POST http://x/events HTTP/1.1\r\n" + kHost + kKey + "Content-Length: 2\r\n\r\n{}"},
      {"a url of another host",
       "POST http://y/events HTTP/1.1\r\n" + kHost + kKey + "Content-Length: 2\r\n\r\n{}"},
      {"a star", "POST * HTTP/1.1\r\n" + kHost + kKey + "Content-Length: 2\r\n\r\n{}"},
      {"a target without a slash", "POST events HTTP/1.1\r\n" + kHost + kKey + "\r\n"},
      {"a hello of TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"s},
      // The target and the host.
      {"no host", kLine + kKey + "Content-Length: 2\r\n\r\n{}"},
      {"two hosts", kLine + kHost + "Host: y\r\n" + kKey + "Content-Length: 2\r\n\r\n{}"},
      {"the same host twice", kLine + kHost + kHost + kKey + "Content-Length: 2\r\n\r\n{}"},
      {"a list of hosts", kLine + "Host: x, y\r\n" + kKey + "Content-Length: 2\r\n\r\n{}"},
      {"a host with a path", kLine + "Host: x/y\r\n" + kKey + "Content-Length: 2\r\n\r\n{}"},
      {"a host with a user", kLine + "Host: u@x\r\n" + kKey + "Content-Length: 2\r\n\r\n{}"},
      {"a blank before the host's colon",
       kLine + "Host : x\r\n" + kKey + "Content-Length: 2\r\n\r\n{}"},
      {"something else is expected", kStart + "Expect: 200-ok\r\nContent-Length: 2\r\n\r\n{}", 417},
  };
}

inline std::vector<Malformed> malformed_requests() {
  std::vector<Malformed> all;
  for (const auto& some :
       {malformed_lengths(), malformed_chunks(), malformed_lines(), malformed_targets()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

}  // namespace dovetail::http
