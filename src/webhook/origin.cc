// The application's side: an endpoint as the origin of a consumer.
#include "dovetail/http.h"
#include "webhook/source.h"

namespace dovetail::http {

Result<Origin> origin(const ReadOptions& options) {
  if (options.port == 0)
    return fail(Errc::rejected, "ReadOptions::port is 0; set the port that senders connect to");
  SourceOptions own;
  static_cast<ReadOptions&>(own) = options;
  DOVETAIL_TRY(check(own));
  return Origin{"HTTP at " + options.address + ":" + std::to_string(options.port) + options.path,
                [own](Clock& clock, Duration) -> Result<std::unique_ptr<Source>> {
                  return std::make_unique<HttpSource>(own, clock);
                }};
}

}  // namespace dovetail::http
