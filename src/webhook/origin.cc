// The application's side: an endpoint as the origin of a consumer.
#include "dovetail/http.h"
#include "webhook/source.h"

namespace dovetail::http {

Result<Origin> origin(const ReadOptions& options) {
  if (options.port == 0)
    return fail(Errc::rejected, "ReadOptions::port is 0; set the port that senders connect to");
  SourceOptions own;
  own.address = options.address;
  own.port = options.port;
  own.path = options.path;
  own.foreign = ForeignNames{options.id_header, options.type_header, options.aggregate_type_header,
                             options.aggregate_id_header};
  own.token = options.token;
  own.secrets = options.secrets;
  own.signature_age_max = options.signature_age_max;
  own.cert_file = options.cert_file;
  own.key_file = options.key_file;
  own.payload_bytes_max = options.payload_bytes_max;
  own.answer_timeout = options.answer_timeout;
  own.waiting_max = options.waiting_max;
  own.waiting_bytes_max = options.waiting_bytes_max;
  DOVETAIL_TRY(check(own));
  return Origin{"HTTP at " + options.address + ":" + std::to_string(options.port) + options.path,
                [own](Clock& clock, Duration) -> Result<std::unique_ptr<Source>> {
                  return std::make_unique<HttpSource>(own, clock);
                }};
}

}  // namespace dovetail::http
