// The application's side: streams as the origin of a consumer.
#include "dovetail/redis.h"
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
  const Options own{options};
  DOVETAIL_TRY(check(own));
  return Origin{"Redis at " + net::Endpoint{own.host, own.port}.to_string(),
                [own](Clock& clock, Duration call_max) -> Result<std::unique_ptr<Source>> {
                  return make_source(own, call_max, clock);
                }};
}

}  // namespace dovetail::redis
