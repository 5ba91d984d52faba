// The application's side: a stream as the origin of a consumer.
#include <algorithm>
#include <utility>

#include "dovetail/nats.h"
#include "nats/source.h"

namespace dovetail::nats {

namespace {

Status check(const ReadOptions& options) {
  const char* wrong = nullptr;
  if (options.servers.empty()) wrong = "ReadOptions::servers is empty; name at least one server";
  if (options.group.empty())
    wrong = "ReadOptions::group is empty; set it to the name of the durable consumer";
  if (options.stream.empty() && options.subjects.empty())
    wrong = "ReadOptions has neither `stream` nor `subjects`; set one of them";
  if (options.prefetch == 0) wrong = "ReadOptions::prefetch is 0; set it to at least 1";
  if (options.redeliver_after < std::chrono::seconds(1))
    wrong = "ReadOptions::redeliver_after is below 1 s; raise it above the longest handler";
  if (options.cert_file.empty() != options.key_file.empty())
    wrong = "cert_file and key_file must be set together; set both or neither";
  if (!options.token.empty() && !(options.user.empty() && options.password.empty()))
    wrong = "ReadOptions has a token and a user; keep one of them";
  if (wrong != nullptr) return fail(Errc::rejected, wrong);
  return {};
}

}  // namespace

Result<Origin> origin(const ReadOptions& options) {
  DOVETAIL_TRY(check(options));
  SourceOptions own;
  ConnectionOptions& connection = own.connection;
  std::string shown = "NATS at ";
  for (const Server& server : options.servers) {
    connection.servers.push_back({server.host, server.port});
    if (connection.servers.size() > 1) shown += ",";
    shown += connection.servers.back().to_string();
  }
  connection.tls = options.tls;
  static_cast<net::TlsOptions&>(connection) = {options.ca_file, options.cert_file, options.key_file,
                                               options.server_name};
  connection.user = options.user;
  connection.password = options.password;
  connection.token = options.token;
  connection.inbox_prefix = options.inbox_prefix;
  own.foreign = ForeignNames{options.id_header, options.type_header, options.aggregate_type_header,
                             options.aggregate_id_header};
  own.stream = options.stream;
  own.subjects = options.subjects;
  own.durable = options.group;
  own.domain = options.domain;
  own.declare = options.declare;
  own.from_end = options.from_end;
  own.key_in_subject = options.key_in_subject;
  own.key_header = options.key_header;
  own.ack_wait = options.redeliver_after;
  own.prefetch_events = options.prefetch;
  return Origin{
      std::move(shown), [own](Clock& clock, Duration call_max) -> Result<std::unique_ptr<Source>> {
        SourceOptions bounded = own;
        bounded.connection.request_timeout = std::min(bounded.connection.request_timeout, call_max);
        return std::make_unique<NatsSource>(std::move(bounded), clock);
      }};
}

}  // namespace dovetail::nats
