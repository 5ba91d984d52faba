// The thread of an endpoint: its sockets and their deadlines.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server/conversation.h"
#include "server/endpoint.h"
#include "server/wire.h"

namespace dovetail::http {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { reset(); }
  int get() const { return fd_; }
  void reset();

 private:
  int fd_ = -1;
};

// One client connection. Only the thread uses it.
struct ClientConnection {
  ClientConnection(Descriptor given, Talks& talks, const TlsIdentity& identity, Peer peer,
                   std::string whose, TimePoint now)
      : socket(std::move(given)),
        client(std::move(whose)),
        wire(identity),
        talk(talks, this, std::move(peer)),
        since(now) {}

  Descriptor socket;
  std::string client;  // the client that it counts for; empty: none
  Wire wire;
  Conversation talk;
  std::uint32_t events = 0;   // those that epoll is asked for
  TimePoint since;            // when the phase began
  std::uint64_t moved = 0;    // bytes since then
  bool is_new = true;         // nothing was received yet
  bool is_lingering = false;  // the answer is sent; only reads away what still comes
  bool is_dead = false;
  std::list<ClientConnection>::iterator place{};
};

// start() and the destructor: one thread; answer() and stop_listening(): any.
class Endpoint::Loop {
 public:
  Loop(const EndpointOptions& options, Clock& clock, RequestHandler& handler,
       const TlsIdentity& identity, Descriptor listening);
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop();

  void start();
  void stop_listening();
  void answer(Request& request, Reply reply);

 private:
  void run();
  void wake() const;
  void fall_asleep() const;
  void accept_all();
  void accept_one(Descriptor socket, const sockaddr* address);
  bool make_room(const std::string& client);
  ClientConnection* victim_among(const std::string& client);
  void take_answers();
  void on_ready(ClientConnection& one, std::uint32_t events);
  void on_readable(ClientConnection& one);
  void go_on(ClientConnection& one);
  bool send_out(ClientConnection& one);
  void end(ClientConnection& one);
  void watch(ClientConnection& one);
  void sweep(TimePoint now);
  bool is_late(const ClientConnection& one, TimePoint now) const;
  void bury();

  const EndpointOptions& options_;
  Clock& clock_;
  const TlsIdentity& identity_;
  const std::size_t per_client_max_;
  Talks talks_;
  Descriptor poll_;
  Descriptor wake_;
  std::list<ClientConnection> connections_;
  std::vector<ClientConnection*> dead_;
  std::unordered_map<std::string, std::size_t> counts_;  // of connections, by client
  TimePoint swept_at_{};
  bool is_short_ = false;  // descriptors ran out: nothing is accepted until the next sweep

  std::mutex mutex_;  // guards everything below
  std::condition_variable all_gone_;
  Descriptor listening_;
  std::vector<std::pair<Request*, Reply>> answers_;
  bool is_ending_ = false;
  std::size_t requests_ = 0;  // as the thread saw it last

  std::thread thread_;
};

}  // namespace dovetail::http
