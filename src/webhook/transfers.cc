#include "webhook/transfers.h"

#include <curl/curl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/ascii.h"
#include "core/check.h"
#include "core/handle.h"
#include "server/address.h"
#include "server/header_field.h"

namespace dovetail::http {

namespace {

long milliseconds(Duration duration) {
  return static_cast<long>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

// Time for an answer's body after its headers; nothing waits for it.
constexpr Duration kBodyTimeMax = std::chrono::seconds(2);

// libcurl must be initialised before threads start; it is never cleaned up.
void start_curl() {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  DOVETAIL_CHECK(started == CURLE_OK);
}

std::optional<std::string> value_of(std::string_view line, std::string_view name) {
  if (line.size() <= name.size() || to_lower(line.substr(0, name.size())) != name) return {};
  line.remove_prefix(name.size());
  while (!line.empty() && line.back() <= ' ') line.remove_suffix(1);
  return std::string(line);
}

template <class Value>
void set(CURL* easy, CURLoption option, Value value) {
  DOVETAIL_CHECK(curl_easy_setopt(easy, option, value) == CURLE_OK);
}

}  // namespace

struct Transfers::Transfer {
  Handle<CURL, curl_easy_cleanup> easy{curl_easy_init()};
  Posting posting{};
  std::vector<curl_slist> lines{};
  void* request = nullptr;
  Transfers* owner = nullptr;
  Clock* clock = nullptr;
  bool allow_private = false;
  std::size_t response_bytes_max = 0;

  long status = 0;  // set when the headers are complete
  long status_line = 0;
  std::string retry_after{};
  std::string date{};
  std::size_t body_bytes = 0;
  TimePoint answered_at{};
  std::string forbidden{};  // the refused address, and why
  std::array<char, CURL_ERROR_SIZE> error{};

  void forget() {
    status = status_line = 0;
    retry_after.clear();
    body_bytes = 0;
    forbidden.clear();
    error[0] = '\0';
  }
  void link_lines() {
    lines.resize(posting.header_starts.size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
      lines[i].data = posting.headers.data() + posting.header_starts[i];
      lines[i].next = i + 1 < lines.size() ? &lines[i + 1] : nullptr;
    }
  }
  Answer answer(CURLcode code) const;
};

// Called by libcurl.
struct Transfers::Callbacks {
  static curl_socket_t open_socket(void* data, curlsocktype, curl_sockaddr* address) {
    auto& transfer = *static_cast<Transfer*>(data);
    const std::string_view why = why_not_public(&address->addr);
    if (!why.empty() && !transfer.allow_private) {
      transfer.forbidden = address_text(&address->addr) + " is " + std::string(why);
      return CURL_SOCKET_BAD;
    }
    const int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (fd >= 0) transfer.owner->watch_of(fd) = {0, 0, true};
    return fd;
  }

  static std::size_t take_header(char* bytes, std::size_t, std::size_t count, void* data) {
    auto& transfer = *static_cast<Transfer*>(data);
    const std::string_view line(bytes, count);
    if (line.starts_with("HTTP/")) {
      curl_easy_getinfo(transfer.easy.get(), CURLINFO_RESPONSE_CODE, &transfer.status_line);
    } else if (line == "\r\n" || line == "\n") {
      // The final headers follow an interim answer.
      if (transfer.status_line >= 200) {
        transfer.status = transfer.status_line;
        transfer.answered_at = transfer.clock->now();
      }
    } else if (count < 200) {
      if (const auto value = value_of(line, "retry-after:")) transfer.retry_after = *value;
      if (const auto value = value_of(line, "date:")) transfer.date = *value;
    }
    return count;
  }

  // Keeps reading only so that the connection can be reused.
  static std::size_t take_body(char*, std::size_t, std::size_t count, void* data) {
    auto& transfer = *static_cast<Transfer*>(data);
    transfer.body_bytes += count;
    const bool enough = transfer.body_bytes > transfer.response_bytes_max ||
                        transfer.clock->now() - transfer.answered_at > kBodyTimeMax;
    return enough ? 0 : count;
  }

  static int close_socket(void* data, curl_socket_t fd) {
    // Closing removes it from epoll.
    static_cast<Transfers*>(data)->watch_of(fd) = {};
    return close(fd);
  }

  static int watch(CURL*, curl_socket_t fd, int what, void* data, void*) {
    auto& transfers = *static_cast<Transfers*>(data);
    Watch& watch = transfers.watch_of(fd);
    watch.wanted = 0;
    if (what == CURL_POLL_REMOVE) {
      if (!watch.is_connection && watch.told != 0) transfers.tell(fd, watch);
      return 0;
    }
    if (what != CURL_POLL_OUT) watch.wanted |= EPOLLIN;
    if (what != CURL_POLL_IN) watch.wanted |= EPOLLOUT;
    return watch.wanted == watch.told || transfers.tell(fd, watch) ? 0 : -1;
  }

  static int set_timer(CURLM*, long after_ms, void* data) {
    auto& transfers = *static_cast<Transfers*>(data);
    transfers.timer_set_ = after_ms >= 0;
    if (after_ms >= 0)
      transfers.timer_at_ = transfers.clock_.now() + std::chrono::milliseconds(after_ms);
    return 0;
  }
};

void Transfers::free_multi(void* multi) { curl_multi_cleanup(multi); }

void Transfers::Descriptor::reset(int fd) {
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
}

Transfers::Transfers(const SinkOptions& options, const UrlTemplate& url, Clock& clock)
    : options_(options), url_(url), clock_(clock) {
  start_curl();
}

Transfers::Watch& Transfers::watch_of(int fd) {
  const auto index = static_cast<std::size_t>(fd);
  if (index >= watches_.size()) watches_.resize(index + 1);
  return watches_[index];
}

bool Transfers::tell(int fd, Watch& watch) {
  epoll_event event{};
  event.events = watch.wanted;
  event.data.fd = fd;
  const int action = watch.wanted == 0 ? EPOLL_CTL_DEL
                     : watch.told == 0 ? EPOLL_CTL_ADD
                                       : EPOLL_CTL_MOD;
  watch.told = watch.wanted;
  return epoll_ctl(epoll_.get(), action, fd, &event) == 0;
}

Transfers::~Transfers() {
  for (const auto& transfer : transfers_)
    curl_multi_remove_handle(multi_.get(), transfer->easy.get());
}

Status Transfers::open() {
  for (const auto& transfer : transfers_)
    curl_multi_remove_handle(multi_.get(), transfer->easy.get());
  idle_.clear();
  transfers_.clear();
  multi_.reset();
  watches_.clear();
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (epoll_.get() < 0)
    return fail(Errc::unavailable, std::string("cannot make an epoll descriptor: ") +
                                       std::strerror(errno) + "; check the limit of open files");
  timer_set_ = false;
  multi_.reset(curl_multi_init());
  DOVETAIL_CHECK(multi_ != nullptr);
  curl_multi_setopt(multi_.get(), CURLMOPT_SOCKETFUNCTION, &Callbacks::watch);
  curl_multi_setopt(multi_.get(), CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi_.get(), CURLMOPT_TIMERFUNCTION, &Callbacks::set_timer);
  curl_multi_setopt(multi_.get(), CURLMOPT_TIMERDATA, this);
  curl_multi_setopt(multi_.get(), CURLMOPT_MAXCONNECTS,
                    static_cast<long>(options_.requests_in_flight_max));
  for (std::size_t i = 0; i < options_.requests_in_flight_max; ++i) {
    auto transfer = std::make_unique<Transfer>();
    set_up(*transfer);
    idle_.push_back(transfer.get());
    transfers_.push_back(std::move(transfer));
  }
  return {};
}

void Transfers::set_up(Transfer& transfer) {
  CURL* const easy = transfer.easy.get();
  DOVETAIL_CHECK(easy != nullptr);
  transfer.owner = this;
  transfer.clock = &clock_;
  transfer.allow_private = options_.allow_private;
  transfer.response_bytes_max = options_.response_bytes_max;
  set(easy, CURLOPT_PRIVATE, &transfer);
  set(easy, CURLOPT_ERRORBUFFER, transfer.error.data());
  set(easy, CURLOPT_NOSIGNAL, 1L);
  set(easy, CURLOPT_QUICK_EXIT, 1L);
  set(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  set(easy, CURLOPT_FOLLOWLOCATION, 0L);
  set(easy, CURLOPT_PROXY, "");  // ignores the environment's proxy, too
  set(easy, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  set(easy, CURLOPT_PATH_AS_IS, 1L);
  set(easy, CURLOPT_OPENSOCKETFUNCTION, &Callbacks::open_socket);
  set(easy, CURLOPT_OPENSOCKETDATA, &transfer);
  set(easy, CURLOPT_CLOSESOCKETFUNCTION, &Callbacks::close_socket);
  set(easy, CURLOPT_CLOSESOCKETDATA, this);
  set(easy, CURLOPT_HEADERFUNCTION, &Callbacks::take_header);
  set(easy, CURLOPT_HEADERDATA, &transfer);
  set(easy, CURLOPT_WRITEFUNCTION, &Callbacks::take_body);
  set(easy, CURLOPT_WRITEDATA, &transfer);
  set(easy, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(options_.connect_timeout));
  set(easy, CURLOPT_TIMEOUT_MS, milliseconds(options_.request_timeout));
  set(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  set(easy, CURLOPT_USERAGENT, "dovetail");
  set(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
  set(easy, CURLOPT_PIPEWAIT,
      url_.is_https() ? 1L : 0L);  // prefers one multiplexed connection
  set(easy, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  set(easy, CURLOPT_SSL_VERIFYPEER, 1L);
  set(easy, CURLOPT_SSL_VERIFYHOST, 2L);
  if (!options_.ca_file.empty()) {
    set(easy, CURLOPT_CAINFO, options_.ca_file.c_str());
    set(easy, CURLOPT_CAPATH, static_cast<char*>(nullptr));
  }
  if (!options_.cert_file.empty()) {
    set(easy, CURLOPT_SSLCERT, options_.cert_file.c_str());
    set(easy, CURLOPT_SSLKEY, options_.key_file.c_str());
  }
  set(easy, CURLOPT_URL, options_.url.c_str());
}

// The error text: curl's, or ours for a refused address.
Answer Transfers::Transfer::answer(CURLcode code) const {
  if (status != 0) return Answer{status, retry_after, true, {}};
  Answer answer;
  curl_off_t sent_at_us = 0;
  curl_easy_getinfo(easy.get(), CURLINFO_PRETRANSFER_TIME_T, &sent_at_us);
  answer.was_sent = sent_at_us > 0;
  answer.text = error[0] != '\0' ? error.data() : curl_easy_strerror(code);
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
      answer.was_sent = false;
      if (!forbidden.empty())
        answer.text = forbidden +
                      ", and such addresses are refused; check the url, or set "
                      "allow_private = true if it is intended";
      else
        answer.text += "; check that the endpoint runs and is reachable";
      break;
    case CURLE_PEER_FAILED_VERIFICATION:
      answer.was_sent = false;
      answer.text += "; check ca_file and the name in the certificate of the endpoint";
      break;
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
      answer.was_sent = false;
      answer.text += "; check ca_file, cert_file and key_file";
      break;
    case CURLE_SSL_CONNECT_ERROR:
      answer.was_sent = false;
      answer.text += "; check that the endpoint supports TLS 1.2 or newer";
      break;
    default:
      answer.text += "; check the endpoint and the proxies before it";
  }
  return answer;
}

Status Transfers::probe() {
  Transfer transfer;
  set_up(transfer);
  CURL* const easy = transfer.easy.get();
  set(easy, CURLOPT_URL, (url_.base() + "/").c_str());
  set(easy, CURLOPT_CONNECT_ONLY, 1L);
  const CURLcode code = curl_easy_perform(easy);
  if (code == CURLE_OK) return {};
  return fail(Errc::unavailable,
              "cannot connect to " + url_.base() + ": " + transfer.answer(code).text);
}

Result<Transfers::Greeting> Transfers::greet() {
  Transfer transfer;
  set_up(transfer);
  CURL* const easy = transfer.easy.get();
  if (url_.has_fields()) set(easy, CURLOPT_URL, (url_.base() + "/").c_str());
  set(easy, CURLOPT_CUSTOMREQUEST, "OPTIONS");
  const CURLcode code = curl_easy_perform(easy);
  if (transfer.status == 0)
    return fail(Errc::unavailable, url_.base() + " does not answer: " + transfer.answer(code).text);
  Greeting greeting{transfer.status};
  const std::time_t date = curl_getdate(transfer.date.c_str(), nullptr);
  if (!transfer.date.empty() && date >= 0) greeting.date = WallTime(std::chrono::seconds(date));
  return greeting;
}

Posting& Transfers::next() {
  DOVETAIL_CHECK(!idle_.empty());
  return idle_.back()->posting;
}

void Transfers::start(void* request) {
  Transfer& transfer = *idle_.back();
  idle_.pop_back();
  transfer.forget();
  transfer.request = request;
  transfer.posting.add_header("expect", "");
  // Without a value, curl does not add the header itself.
  transfer.posting.headers[transfer.posting.header_starts.back() + 6] = ':';
  transfer.link_lines();
  CURL* const easy = transfer.easy.get();
  set(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(transfer.posting.body.size()));
  // With a null pointer curl would read from stdin.
  set(easy, CURLOPT_POSTFIELDS, transfer.posting.body.empty() ? "" : transfer.posting.body.data());
  set(easy, CURLOPT_HTTPHEADER, transfer.lines.data());
  if (!transfer.posting.url.empty()) set(easy, CURLOPT_URL, transfer.posting.url.c_str());
  DOVETAIL_CHECK(curl_multi_add_handle(multi_.get(), easy) == CURLM_OK);
}

bool Transfers::take_answers(const std::function<void(void*, const Answer&)>& done) {
  bool some = false;
  int left = 0;
  while (CURLMsg* const message = curl_multi_info_read(multi_.get(), &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const CURLcode code = message->data.result;
    CURL* const easy = message->easy_handle;
    Transfer* transfer = nullptr;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
    const Answer answer = transfer->answer(code);
    curl_multi_remove_handle(multi_.get(), easy);
    idle_.push_back(transfer);
    some = true;
    done(std::exchange(transfer->request, nullptr), answer);
  }
  return some;
}

void Transfers::run(Duration timeout, const std::function<void(void*, const Answer&)>& done) {
  const TimePoint until = clock_.now() + timeout;
  // Returns after a few answers, so that the next requests go out while the endpoint works.
  std::array<epoll_event, 8> events;
  int running = 0;
  while (true) {
    if (timer_set_ && timer_at_ <= clock_.now()) {
      timer_set_ = false;
      curl_multi_socket_action(multi_.get(), CURL_SOCKET_TIMEOUT, 0, &running);
    }
    const bool answered = take_answers(done);
    const TimePoint now = clock_.now();
    TimePoint wake_at = answered ? now : until;
    if (timer_set_) wake_at = std::min(wake_at, timer_at_);
    const Duration wait = std::max(wake_at - now, Duration{0});
    const int count =
        epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                   static_cast<int>(milliseconds(wait + std::chrono::microseconds(999))));
    for (int i = 0; i < count; ++i) {
      const auto& event = events[static_cast<std::size_t>(i)];
      if (Watch& watch = watch_of(event.data.fd); watch.wanted == 0) {
        tell(event.data.fd, watch);
        continue;
      }
      int mask = 0;
      if ((event.events & EPOLLIN) != 0) mask |= CURL_CSELECT_IN;
      if ((event.events & EPOLLOUT) != 0) mask |= CURL_CSELECT_OUT;
      if ((event.events & (EPOLLERR | EPOLLHUP)) != 0) mask |= CURL_CSELECT_ERR;
      curl_multi_socket_action(multi_.get(), event.data.fd, mask, &running);
    }
    if (count > 0 && take_answers(done)) return;
    if (answered || clock_.now() >= until) return;
  }
}

}  // namespace dovetail::http
