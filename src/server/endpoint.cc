#include "server/endpoint.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <utility>

#include "core/ascii.h"
#include "core/handle.h"
#include "server/endpoint_loop.h"
#include "server/header_field.h"

namespace dovetail::http {

namespace {

constexpr int kBacklog = 511;

// Empty: errno has the reason.
Descriptor listening_socket(const addrinfo& address) {
  Descriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int one = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (address.ai_family == AF_INET6)
    setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
  if (socket.get() < 0 || bind(socket.get(), address.ai_addr, address.ai_addrlen) != 0 ||
      ::listen(socket.get(), kBacklog) != 0)
    return {};
  return socket;
}

std::uint16_t port_of(const Descriptor& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace

std::string_view Request::header(std::string_view lower_name) const {
  for (const MessageHeader& one : headers)
    if (one.name.size() == lower_name.size() && to_lower(one.name) == lower_name) return one.value;
  return {};
}

Endpoint::Endpoint(EndpointOptions options, Clock& clock, RequestHandler& handler)
    : options_(std::move(options)), clock_(clock), handler_(handler) {}

Endpoint::~Endpoint() = default;

void Endpoint::stop_listening() {
  if (loop_) loop_->stop_listening();
}

void Endpoint::answer(Request& request, Reply reply) { loop_->answer(request, std::move(reply)); }

Status Endpoint::listen() {
  if (loop_) return {};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (getaddrinfo(options_.address.c_str(), std::to_string(options_.port).c_str(), &hints,
                  &found) != 0)
    return fail(Errc::rejected,
                "cannot listen at \"" + options_.address + "\"; use an address of this machine");
  const Handle<addrinfo, freeaddrinfo> addresses(found);
  if (!options_.allow_remote && why_not_public(addresses->ai_addr) != "loopback")
    return fail(Errc::rejected, options_.remote_hint);
  if (!options_.cert_file.empty()) {
    Result<TlsIdentity> identity = TlsIdentity::load(options_.cert_file, options_.key_file);
    if (!identity) return fail(identity.error());
    identity_ = std::move(*identity);
  }
  Descriptor socket = listening_socket(*addresses);
  if (socket.get() < 0)
    return fail(Errc::unavailable, "cannot listen at " + options_.address + ":" +
                                       std::to_string(options_.port) +
                                       "; check that no other process uses the port");
  port_ = port_of(socket);
  loop_ = std::make_unique<Loop>(options_, clock_, handler_, identity_, std::move(socket));
  loop_->start();  // from here on any thread may answer through `loop_`
  return {};
}

}  // namespace dovetail::http
