#include "redis/errors.h"

#include <array>

namespace dovetail::redis {

namespace {

struct Known {
  std::string_view beginning;
  Reach reach;
  std::string_view hint;
};

// The first match counts.
constexpr std::array kKnown = {
    Known{"OOM ", Reach::server, "check maxmemory and which keys fill the server"},
    Known{"READONLY ", Reach::server, "this is a replica; check that the url names the primary"},
    Known{"MISCONF ", Reach::server, "the server cannot persist; check its disk and log"},
    Known{"LOADING ", Reach::server, "the server is starting; wait until it has loaded its data"},
    Known{"MASTERDOWN ", Reach::server, "check the replica's link to its primary"},
    Known{"NOREPLICAS ", Reach::server, "check the replicas and min-replicas-to-write"},
    Known{"BUSY ", Reach::server, "a script has run too long; check which client runs it"},
    Known{"CLUSTERDOWN ", Reach::server, "Redis Cluster is not supported; use a single primary"},
    Known{"MOVED ", Reach::server, "Redis Cluster is not supported; use a single primary"},
    Known{"ASK ", Reach::server, "Redis Cluster is not supported; use a single primary"},
    Known{"TRYAGAIN ", Reach::server, "Redis Cluster is not supported; use a single primary"},
    Known{"NOAUTH ", Reach::server, "check user and password"},
    Known{"WRONGPASS ", Reach::server, "check user and password"},
    Known{"DENIED ", Reach::server,
          "the server is in protected mode; check its settings bind and requirepass"},
    Known{"ERR max number of clients", Reach::server, "check maxclients and the list of clients"},
    Known{"ERR unknown command", Reach::server, "streams need Redis 6.2; check its version"},
    Known{"ERR Protocol error", Reach::event, "check proto-max-bulk-len"},
    Known{"ERR Elements are too large", Reach::event, "send a reference instead"},
    Known{"WRONGTYPE ", Reach::stream, "the key is not a stream; check the name"},
    Known{"NOPERM ", Reach::stream, "check the user's ACL"},
};

const Known* known(std::string_view reply) {
  for (const Known& one : kKnown)
    if (reply.starts_with(one.beginning)) return &one;
  return nullptr;
}

}  // namespace

Reach reach_of(std::string_view reply) {
  // The user may not run the command at all; other NOPERM errors are about a key.
  if (reply.starts_with("NOPERM ") && reply.find("to run the") != std::string_view::npos)
    return Reach::server;
  const Known* const one = known(reply);
  return one == nullptr ? Reach::unknown : one->reach;
}

std::string describe(std::string_view reply) {
  const Known* const one = known(reply);
  std::string text = "the server reports: ";
  text += reply.substr(0, std::min(reply.find(", with args"), reply.find('\n')));
  text += "; ";
  text += one == nullptr ? "check the server's log and version" : one->hint;
  return text;
}

Error server_error(std::string_view what, std::string_view reply) {
  return Error{Errc::unavailable, std::string(what) + ": " + describe(reply)};
}

}  // namespace dovetail::redis
