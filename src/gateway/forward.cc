#include "gateway/forward.h"

#include <curl/curl.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/ascii.h"
#include "core/check.h"
#include "core/handle.h"
#include "gateway/answer_head.h"
#include "server/header_field.h"
#include "webhook/url.h"

namespace dovetail::http {

namespace {

using Lines = Handle<curl_slist, curl_slist_free_all>;

template <class Value>
void set(CURL* easy, CURLoption option, Value value) {
  DOVETAIL_CHECK(curl_easy_setopt(easy, option, value) == CURLE_OK);
}

long milliseconds(Duration duration) {
  return static_cast<long>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Reads the bytes as Latin-1 and encodes them as UTF-8, so that a text can hold any byte.
std::string from_latin1(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80) text += static_cast<char>(0xc0 | (byte >> 6));
    text += byte >= 0x80 ? static_cast<char>(0x80 | (byte & 0x3f)) : c;
  }
  return text;
}

// The reverse.
std::string to_latin1(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto first = static_cast<unsigned char>(text[i]);
    const bool is_pair = (first == 0xc2 || first == 0xc3) && i + 1 < text.size();
    bytes += is_pair ? static_cast<char>((first << 6) | (text[++i] & 0x3f)) : text[i];
  }
  return bytes;
}

}  // namespace

bool is_about_client(std::string_view lower_name) {
  std::string name(lower_name);
  std::replace(name.begin(), name.end(), '_', '-');
  return name == "forwarded" || name.starts_with("x-forwarded") || name == "x-real-ip" ||
         name == "x-original-url" || name == "x-rewrite-url" || name == "x-client-ip" ||
         name == "x-cluster-client-ip" || name == "true-client-ip" || name == "client-ip";
}

bool is_safe_method(std::string_view method) {
  return is_one_of(method, {"GET", "HEAD", "OPTIONS"});
}
bool is_idempotent_method(std::string_view method) {
  return is_safe_method(method) || is_one_of(method, {"PUT", "DELETE"});
}

std::string to_lines(const std::vector<Header>& headers) {
  std::string lines;
  for (const Header& header : headers)
    lines += from_latin1(header.name) + ": " + from_latin1(header.value) + "\n";
  return lines;
}

std::vector<Header> from_lines(std::string_view text) {
  std::vector<Header> headers;
  const std::string bytes = to_latin1(text);
  std::string_view lines = bytes;
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    const std::string_view line = lines.substr(0, end);
    const std::size_t colon = line.find(": ");
    if (colon != std::string_view::npos)
      headers.push_back({std::string(line.substr(0, colon)), std::string(line.substr(colon + 2))});
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  return headers;
}

Status check(const ForwardOptions& options) {
  const Result<UrlTemplate> url = UrlTemplate::parse(options.url);
  if (!url) return fail(url.error());
  if (url->has_fields() || options.url.find('?') != std::string::npos)
    return fail(Errc::rejected,
                "the url of the service must not have fields or a query; use a form like "
                "http://127.0.0.1:8000");
  if (options.cert_file.empty() != options.key_file.empty())
    return fail(Errc::rejected, "cert_file and key_file must be set together; set both or neither");
  return {};
}

struct Forwarder::Transfer {
  Transfer(const ForwardOptions& given, const std::atomic<bool>& stop)
      : options(given), aborted(stop) {}

  const ForwardOptions& options;
  const std::atomic<bool>& aborted;
  Handle<CURL, curl_easy_cleanup> easy{curl_easy_init()};
  std::string prefix{};  // the url's path
  std::array<char, CURL_ERROR_SIZE> error{};
  ForwardAnswer answer{};
  AnswerHead head{};

  void set_up();
  Lines lines_of(const ForwardRequest& request) const;
  void start(const ForwardRequest& request);
  void finish(CURLcode code);

  static std::size_t take_header(char* bytes, std::size_t, std::size_t count, void* data);
  static std::size_t take_body(char* bytes, std::size_t, std::size_t count, void* data);
  static int look(void* data, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    return static_cast<Transfer*>(data)->aborted.load() ? 1 : 0;
  }
};

std::size_t Forwarder::Transfer::take_header(char* bytes, std::size_t, std::size_t count,
                                             void* data) {
  auto& transfer = *static_cast<Transfer*>(data);
  if (transfer.head.take({bytes, count})) return count;
  transfer.answer.fate = ForwardAnswer::Fate::too_large;
  return 0;
}

std::size_t Forwarder::Transfer::take_body(char* bytes, std::size_t, std::size_t count,
                                           void* data) {
  auto& transfer = *static_cast<Transfer*>(data);
  if (transfer.answer.body.size() + count > transfer.options.response_bytes_max) {
    transfer.answer.fate = ForwardAnswer::Fate::too_large;
    return 0;
  }
  transfer.answer.body.append(bytes, count);
  return count;
}

void Forwarder::Transfer::set_up() {
  DOVETAIL_CHECK(easy != nullptr);
  set(easy.get(), CURLOPT_ERRORBUFFER, error.data());
  set(easy.get(), CURLOPT_NOSIGNAL, 1L);
  set(easy.get(), CURLOPT_PROTOCOLS_STR, "http,https");
  set(easy.get(), CURLOPT_FOLLOWLOCATION, 0L);
  set(easy.get(), CURLOPT_PROXY, "");  // ignores the environment's proxy, too
  set(easy.get(), CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  set(easy.get(), CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(easy.get(), CURLOPT_HEADERFUNCTION, &take_header);
  set(easy.get(), CURLOPT_HEADERDATA, this);
  set(easy.get(), CURLOPT_WRITEFUNCTION, &take_body);
  set(easy.get(), CURLOPT_WRITEDATA, this);
  set(easy.get(), CURLOPT_XFERINFOFUNCTION, &look);
  set(easy.get(), CURLOPT_XFERINFODATA, this);
  set(easy.get(), CURLOPT_NOPROGRESS, 0L);
  set(easy.get(), CURLOPT_CONNECTTIMEOUT_MS, milliseconds(options.connect_timeout));
  set(easy.get(), CURLOPT_TIMEOUT_MS, milliseconds(options.timeout));
  set(easy.get(), CURLOPT_TCP_KEEPALIVE, 1L);
  set(easy.get(), CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  set(easy.get(), CURLOPT_SSL_VERIFYPEER, 1L);
  set(easy.get(), CURLOPT_SSL_VERIFYHOST, 2L);
  if (!options.ca_file.empty()) {
    set(easy.get(), CURLOPT_CAINFO, options.ca_file.c_str());
    set(easy.get(), CURLOPT_CAPATH, static_cast<char*>(nullptr));
  }
  if (!options.cert_file.empty()) {
    set(easy.get(), CURLOPT_SSLCERT, options.cert_file.c_str());
    set(easy.get(), CURLOPT_SSLKEY, options.key_file.c_str());
  }
  set(easy.get(), CURLOPT_URL, options.url.c_str());
  const std::size_t host = options.url.find("://") + 3;
  const std::size_t path = options.url.find('/', host);
  if (path != std::string::npos) prefix = options.url.substr(path);
  while (prefix.ends_with('/')) prefix.pop_back();
}

Lines Forwarder::Transfer::lines_of(const ForwardRequest& request) const {
  Lines lines;
  const auto add = [&lines](const std::string& line) {
    curl_slist* const more = curl_slist_append(lines.get(), line.c_str());
    DOVETAIL_CHECK(more != nullptr);
    static_cast<void>(lines.release());
    lines.reset(more);
  };
  std::vector<std::string> named;
  std::string host;
  std::string forwarded_for(request.peer);
  bool has_type = false, has_accept = false, has_host = false, has_proto = false;
  for (const MessageHeader& header : *request.headers)
    if (to_lower(header.name) == "connection") add_names(header.value, named);
  for (const MessageHeader& header : *request.headers) {
    const std::string name = to_lower(header.name);
    if (name == "host") host = header.value;
    if (name == "host" || is_of_connection(name, named)) continue;
    if (!request.is_from_proxy && is_about_client(name)) continue;
    if (name == "x-forwarded-for") {
      forwarded_for = std::string(header.value) + ", " + forwarded_for;
      continue;
    }
    has_type |= name == "content-type";
    has_accept |= name == "accept";
    has_host |= name == "x-forwarded-host";
    has_proto |= name == "x-forwarded-proto";
    add(std::string(header.name) + (header.value.empty() ? ";" : ": " + std::string(header.value)));
  }
  // Without a value, curl does not add the header itself.
  if (!has_type) add("Content-Type:");
  if (!has_accept) add("Accept:");
  add("Expect:");
  if (!forwarded_for.empty()) add("X-Forwarded-For: " + forwarded_for);
  if (!has_host && !host.empty()) add("X-Forwarded-Host: " + host);
  if (!has_proto)
    add(std::string("X-Forwarded-Proto: ") + (options.came_by_https ? "https" : "http"));
  add("Via: 1.1 dovetail");
  return lines;
}

void Forwarder::Transfer::start(const ForwardRequest& request) {
  answer = ForwardAnswer{};
  head = AnswerHead{};
  error[0] = '\0';
  const std::string method(request.method);
  const bool has_body = !request.body.empty() || is_one_of(method, {"POST", "PUT", "PATCH"});
  set(easy.get(), CURLOPT_HTTPGET, 1L);
  set(easy.get(), CURLOPT_NOBODY, method == "HEAD" ? 1L : 0L);
  if (has_body && method != "HEAD") {
    set(easy.get(), CURLOPT_POST, 1L);
    set(easy.get(), CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    // With a null pointer curl would read from stdin.
    set(easy.get(), CURLOPT_POSTFIELDS, request.body.empty() ? "" : request.body.data());
  }
  set(easy.get(), CURLOPT_CUSTOMREQUEST, method == "HEAD" ? nullptr : method.c_str());
  set(easy.get(), CURLOPT_REQUEST_TARGET, (prefix + std::string(request.uri)).c_str());
  // If a reused connection turns out to be dead, curl would send the request again by itself. But
  // the service may have seen the first one.
  const long once = is_idempotent_method(method) ? 0L : 1L;
  set(easy.get(), CURLOPT_FRESH_CONNECT, once);
  set(easy.get(), CURLOPT_FORBID_REUSE, once);
}

void Forwarder::Transfer::finish(CURLcode code) {
  using Fate = ForwardAnswer::Fate;
  answer.status = head.status();
  answer.headers = head.headers();
  answer.length = head.length();
  if (code == CURLE_OK && answer.status >= 200) {
    answer.fate = Fate::answered;
    return;
  }
  if (answer.fate == Fate::too_large) {
    answer.why = "the service's answer is larger than response_max; raise response_max";
    return;
  }
  curl_off_t sent_at_us = 0;
  curl_easy_getinfo(easy.get(), CURLINFO_PRETRANSFER_TIME_T, &sent_at_us);
  const bool sent = sent_at_us > 0 && code != CURLE_COULDNT_CONNECT &&
                    code != CURLE_COULDNT_RESOLVE_HOST && code != CURLE_PEER_FAILED_VERIFICATION &&
                    code != CURLE_SSL_CONNECT_ERROR && code != CURLE_SSL_CERTPROBLEM &&
                    code != CURLE_SSL_CACERT_BADFILE;
  answer.fate = sent ? Fate::lost : Fate::not_sent;
  answer.timed_out = code == CURLE_OPERATION_TIMEDOUT;
  answer.why = std::string(error[0] != '\0' ? error.data() : curl_easy_strerror(code)) +
               (sent ? "; check the service's log" : "; check that the service runs");
}

Forwarder::Forwarder(const ForwardOptions& options, const std::atomic<bool>& aborted) {
  // libcurl must be initialised before several threads use it; it is never cleaned up.
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  DOVETAIL_CHECK(started == CURLE_OK);
  transfer_ = std::make_unique<Transfer>(options, aborted);
  transfer_->set_up();
}

Forwarder::~Forwarder() = default;

ForwardAnswer Forwarder::forward(const ForwardRequest& request) {
  transfer_->start(request);
  const auto lines = transfer_->lines_of(request);
  CURL* const easy = transfer_->easy.get();
  set(easy, CURLOPT_HTTPHEADER, lines.get());
  transfer_->finish(curl_easy_perform(easy));
  set(easy, CURLOPT_HTTPHEADER, static_cast<curl_slist*>(nullptr));
  return std::move(transfer_->answer);
}

}  // namespace dovetail::http
