// The application's side: streams as the origin of a consumer.
#include <algorithm>
#include <utility>

#include "dovetail/redis.h"
#include "host/stream.h"
#include "redis/source.h"

namespace dovetail::redis {

namespace {

Status check(const ReadOptions& options) {
  const char* wrong = nullptr;
  if (options.host.empty()) wrong = "ReadOptions::host is empty; name the server";
  if (options.streams.empty()) wrong = "ReadOptions::streams is empty; name at least one stream";
  if (options.group.empty()) wrong = "ReadOptions::group is empty; name the consumer group";
  if (options.prefetch == 0) wrong = "ReadOptions::prefetch is 0; set it to at least 1";
  if (options.redeliver_after < std::chrono::seconds(1))
    wrong = "ReadOptions::redeliver_after is below 1 s; raise it above the longest handler";
  if (options.cert_file.empty() != options.key_file.empty())
    wrong = "cert_file and key_file must be set together; set both or neither";
  if (wrong != nullptr) return fail(Errc::rejected, wrong);
  return {};
}

}  // namespace

Result<Origin> origin(const ReadOptions& options) {
  DOVETAIL_TRY(check(options));
  Options own;
  own.host = options.host;
  own.port = options.port;
  own.database = options.database;
  own.user = options.user;
  own.password = options.password;
  own.tls = options.tls;
  own.ca_file = options.ca_file;
  own.cert_file = options.cert_file;
  own.key_file = options.key_file;
  own.server_name = options.server_name;
  own.foreign = ForeignNames{options.id_header, options.type_header, options.aggregate_type_header,
                             options.aggregate_id_header};
  own.payload_field = options.payload_field;
  own.key_field = options.key_header;
  own.streams = options.streams;
  own.group = options.group;
  own.consumer = options.consumer;
  own.from_end = options.from_end;
  own.exclusive = options.exclusive;
  own.delete_settled = options.delete_settled;
  own.claim_after = options.redeliver_after;
  own.fetch_events_max = options.prefetch;
  DOVETAIL_TRY(check(own));
  return Origin{"Redis at " + net::Endpoint{own.host, own.port}.to_string(),
                [own](Clock& clock, Duration call_max) -> Result<std::unique_ptr<Source>> {
                  Options bounded = own;
                  bounded.reply_timeout = std::min(bounded.reply_timeout, call_max);
                  return std::make_unique<RedisSource>(std::move(bounded), clock);
                }};
}

}  // namespace dovetail::redis
