// The application's side: a stream as the origin of a consumer.
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
  std::string shown;
  for (const net::Endpoint& server : options.servers)
    shown += (shown.empty() ? "NATS at " : ",") + server.to_string();
  return Origin{
      std::move(shown),
      [own = Options{options}](Clock& clock, Duration call_max) -> Result<std::unique_ptr<Source>> {
        return make_source(own, call_max, clock);
      }};
}

}  // namespace dovetail::nats
