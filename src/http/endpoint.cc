#include "http/endpoint.h"

#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "http/address.h"
#include "http/posting.h"

namespace dovetail::http {

namespace {

constexpr auto kGoodbyeMax = std::chrono::seconds(2);
constexpr std::size_t kMoreConnections = 64;  // than requests: for those that are told to come back

struct FreeResponse {
  void operator()(MHD_Response* response) const { MHD_destroy_response(response); }
};

struct FreeAddresses {
  void operator()(addrinfo* addresses) const { freeaddrinfo(addresses); }
};

// Never asked for a byte: the answer to HEAD has a length and no body.
ssize_t no_bytes(void*, std::uint64_t, char*, std::size_t) {
  return MHD_CONTENT_READER_END_OF_STREAM;
}

MHD_Response* make_response(const Reply& reply) {
  if (reply.head_bytes)
    return MHD_create_response_from_callback(*reply.head_bytes, 1, &no_bytes, nullptr, nullptr);
  const std::string text = reply.text.empty() ? "" : reply.text + "\n";
  const std::string& bytes = text.empty() ? reply.body : text;
  return MHD_create_response_from_buffer(bytes.size(), const_cast<char*>(bytes.data()),
                                         MHD_RESPMEM_MUST_COPY);
}

MHD_Result send(MHD_Connection* connection, const Reply& reply) {
  const std::unique_ptr<MHD_Response, FreeResponse> response(make_response(reply));
  if (response == nullptr) return MHD_NO;
  if (!reply.text.empty())
    MHD_add_response_header(response.get(), "Content-Type", "text/plain; charset=utf-8");
  if (reply.retry_after_s > 0)
    MHD_add_response_header(response.get(), "Retry-After",
                            std::to_string(reply.retry_after_s).c_str());
  if (!reply.header.empty())
    MHD_add_response_header(response.get(), std::string(reply.header).c_str(),
                            std::string(reply.header_value).c_str());
  for (const Header& one : reply.headers)
    MHD_add_response_header(response.get(), one.name.c_str(), one.value.c_str());
  return MHD_queue_response(connection, reply.status, response.get());
}

MHD_Result add_header(void* data, MHD_ValueKind, const char* name, std::size_t name_bytes,
                      const char* value, std::size_t value_bytes) {
  static_cast<Request*>(data)->headers.push_back(
      {{name, name_bytes}, {value == nullptr ? "" : value, value_bytes}});
  return MHD_YES;
}

// The path is decoded by us, behind the search for its '/'.
std::size_t leave_escaped(void*, MHD_Connection*, char* text) { return std::strlen(text); }

Result<std::string> file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return fail(Errc::rejected, "cannot read " + path + "; check cert_file and key_file");
  return text.str();
}

}  // namespace

std::string_view Request::header(std::string_view lower_name) const {
  for (const MessageHeader& one : headers)
    if (one.name.size() == lower_name.size() && to_lower(one.name) == lower_name) return one.value;
  return {};
}

// Called by libmicrohttpd, in its thread.
struct EndpointCallbacks {
  static MHD_Result access(void* data, MHD_Connection* connection, const char* url,
                           const char* method, const char*, const char* upload,
                           std::size_t* upload_bytes, void** state) {
    auto& endpoint = *static_cast<Endpoint*>(data);
    auto& request = *static_cast<Request*>(*state);
    if (!request.is_begun_) return begin(endpoint, connection, url, method, request);
    if (*upload_bytes > 0) {
      if (endpoint.clock_.now() - request.came_at > endpoint.options_.receive_timeout)
        return MHD_NO;
      endpoint.receive(request, {upload, *upload_bytes});
      *upload_bytes = 0;
      return MHD_YES;
    }
    std::unique_lock lock(endpoint.mutex_);
    if (!request.reply_) {
      // Asleep before anybody can wake it.
      MHD_suspend_connection(connection);
      request.is_whole_ = true;
      lock.unlock();
      endpoint.receiving_bytes_ -= request.body.size();
      std::optional<Reply> reply = endpoint.handler_.take(request);
      if (reply) endpoint.answer(request, std::move(*reply));
      return MHD_YES;
    }
    return send(connection, *request.reply_);
  }

  // Before anything of the request line is taken apart.
  static void* arrive(void* data, const char* uri, MHD_Connection* connection) {
    auto& endpoint = *static_cast<Endpoint*>(data);
    auto request = std::make_unique<Request>();
    request->connection_ = connection;
    request->uri = uri;
    request->came_at = endpoint.clock_.now();
    const std::lock_guard lock(endpoint.mutex_);
    ++endpoint.requests_;
    return request.release();
  }

  static MHD_Result begin(Endpoint& endpoint, MHD_Connection* connection, const char* url,
                          const char* method, Request& request) {
    request.is_begun_ = true;
    request.method = method;
    request.target = url;
    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, &add_header, &request);
    const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (info != nullptr && info->client_addr != nullptr)
      request.peer = address_text(info->client_addr);
    const std::optional<Reply> reply = endpoint.handler_.begin(request);
    return reply ? send(connection, *reply) : MHD_YES;
  }

  static void completed(void* data, MHD_Connection*, void** state, MHD_RequestTerminationCode) {
    auto& endpoint = *static_cast<Endpoint*>(data);
    if (*state == nullptr) return;
    const std::unique_ptr<Request> request(static_cast<Request*>(std::exchange(*state, nullptr)));
    if (!request->is_whole_) endpoint.receiving_bytes_ -= request->body.size();
    const std::lock_guard lock(endpoint.mutex_);
    if (--endpoint.requests_ == 0) endpoint.all_gone_.notify_all();
  }
};

void Endpoint::Stop::operator()(MHD_Daemon* daemon) const { MHD_stop_daemon(daemon); }

Endpoint::Endpoint(EndpointOptions options, Clock& clock, RequestHandler& handler)
    : options_(std::move(options)), clock_(clock), handler_(handler) {}

Endpoint::~Endpoint() {
  if (!daemon_) return;
  stop_listening();
  std::unique_lock lock(mutex_);
  all_gone_.wait_for(lock, kGoodbyeMax, [this] { return requests_ == 0; });
  lock.unlock();
  daemon_.reset();
}

void Endpoint::stop_listening() {
  // Asked again, the library would name a descriptor that may be somebody else's by now.
  if (!daemon_ || std::exchange(is_deaf_, true)) return;
  const MHD_socket listening = MHD_quiesce_daemon(daemon_.get());
  if (listening != MHD_INVALID_SOCKET) close(listening);
}

Status Endpoint::listen() {
  if (daemon_) return {};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (getaddrinfo(options_.address.c_str(), std::to_string(options_.port).c_str(), &hints,
                  &found) != 0)
    return fail(Errc::rejected, "cannot listen at \"" + options_.address +
                                    "\"; check that it is an address of this machine");
  const std::unique_ptr<addrinfo, FreeAddresses> addresses(found);
  if (!options_.allow_remote && why_not_public(addresses->ai_addr) != "loopback")
    return fail(Errc::rejected, options_.remote_hint);
  unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
  if (addresses->ai_family == AF_INET6) flags |= MHD_USE_IPv6;
  std::vector<MHD_OptionItem> more;
  if (!options_.cert_file.empty()) {
    flags |= MHD_USE_TLS;
    for (const auto& [path, text] :
         {std::pair(&options_.cert_file, &certificate_), std::pair(&options_.key_file, &key_)}) {
      Result<std::string> read = file_text(*path);
      if (!read) return fail(read.error());
      *text = std::move(*read);
    }
    static char priorities[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";
    more.push_back({MHD_OPTION_HTTPS_MEM_CERT, 0, certificate_.data()});
    more.push_back({MHD_OPTION_HTTPS_MEM_KEY, 0, key_.data()});
    more.push_back({MHD_OPTION_HTTPS_PRIORITIES, 0, priorities});
  }
  more.push_back({MHD_OPTION_END, 0, nullptr});
  const auto timeout_s = static_cast<unsigned>(std::max<std::int64_t>(
      1, std::chrono::ceil<std::chrono::seconds>(options_.receive_timeout).count()));
  daemon_.reset(MHD_start_daemon(
      flags, 0, nullptr, nullptr, &EndpointCallbacks::access, this,      //
      MHD_OPTION_SOCK_ADDR, addresses->ai_addr,                          //
      MHD_OPTION_URI_LOG_CALLBACK, &EndpointCallbacks::arrive, this,     //
      MHD_OPTION_NOTIFY_COMPLETED, &EndpointCallbacks::completed, this,  //
      MHD_OPTION_CONNECTION_LIMIT, static_cast<unsigned>(options_.waiting_max + kMoreConnections),
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, std::size_t{2 * options_.header_bytes_max},  //
      MHD_OPTION_CONNECTION_TIMEOUT, timeout_s,                                        //
      MHD_OPTION_UNESCAPE_CALLBACK, &leave_escaped, nullptr,                           //
      MHD_OPTION_STRICT_FOR_CLIENT, 1,                                                 //
      MHD_OPTION_ARRAY, more.data(), MHD_OPTION_END));
  if (!daemon_)
    return fail(Errc::unavailable,
                "cannot listen at " + options_.address + ":" + std::to_string(options_.port) +
                    "; check that no other process does, and cert_file and key_file");
  port_ = MHD_get_daemon_info(daemon_.get(), MHD_DAEMON_INFO_BIND_PORT)->port;
  return {};
}

// Reads on when the body is more than we keep: an answer can be given only behind it.
void Endpoint::receive(Request& request, std::string_view bytes) {
  if (request.body.size() + bytes.size() > options_.body_bytes_max) request.body_too_large = true;
  if (receiving_bytes_ + bytes.size() > options_.waiting_bytes_max) request.no_room = true;
  if (request.body_too_large || request.no_room) {
    receiving_bytes_ -= request.body.size();
    std::string().swap(request.body);
    return;
  }
  receiving_bytes_ += bytes.size();
  request.body.append(bytes);
}

void Endpoint::answer(Request& request, Reply reply) {
  const std::lock_guard lock(mutex_);
  request.reply_ = std::move(reply);
  MHD_resume_connection(request.connection_);
}

}  // namespace dovetail::http
