#include "webhook/examine.h"

#include <string>
#include <utility>

#include "core/findings.h"
#include "host/stream.h"
#include "webhook/answer.h"
#include "webhook/sink.h"
#include "webhook/source.h"
#include "webhook/transfers.h"
#include "webhook/url.h"

namespace dovetail::http {

namespace {

using F = const Facts&;
using net::is_loopback;

// Standard Webhooks tolerates five minutes.
constexpr std::int64_t kClockNote = Duration(std::chrono::minutes(1)).count();
constexpr std::int64_t kClockError = Duration(std::chrono::minutes(5)).count();

constexpr Check kSink[] = {
    {[](F f) { return f.is("has_password") ? Severity::error : Severity::warning; }, "plain-http",
     [](F f) { return !f.is("is_https") && !f.is("is_loopback"); },
     "events{and_secret} travel unencrypted to {base}", "use a url that begins with https://"},
    {[](F f) { return f.is("has_password") ? Severity::note : Severity::warning; }, "unsigned",
     [](F f) { return !f.is("is_signed"); },
     "requests are not signed, so the receiver cannot detect forged ones",
     "set secret_env or secret_file, and verify webhook-signature at the receiver"},
    {Severity::warning, "allow-private",
     [](F f) { return f.is("allow_private") && !f.is("is_loopback"); },
     "allow_private is set: the owner of the name {host} can direct requests to private addresses "
     "of your network",
     "set allow_private = false, unless the endpoint is in your network"},
    {Severity::warning, "request-timeout",
     [](F f) {
       return f.number("confirm_timeout") > 0 &&
              f.number("request_timeout") >= f.number("confirm_timeout");
     },
     "a request may take longer than confirm_timeout of the relay, which then drops the "
     "confirmations of other requests, too",
     "set request_timeout below the relay's confirm_timeout"},
    {Severity::warning, "redirect",
     [](F f) { return f.number("status") >= 300 && f.number("status") < 400; },
     "the endpoint answers {status}, and redirects are never followed",
     "set url to the new address"},
    {Severity::error, "gone", [](F f) { return f.number("status") == 410; },
     "the endpoint answers 410: it is gone permanently", "set another url"},
    {[](F f) { return f.number("apart") >= kClockError ? Severity::error : Severity::warning; },
     "clock", [](F f) { return f.is("is_signed") && f.number("apart") > kClockNote; },
     "the endpoint's clock and ours are {apart:age} apart, and a signature is valid only for some "
     "minutes",
     "synchronise both clocks, for example by NTP"},
};

constexpr Check kSource[] = {
    {[](F f) { return f.is("has_token") ? Severity::error : Severity::warning; }, "plain-http",
     [](F f) { return !f.is("is_loopback") && !f.is("has_tls"); },
     "events{and_secret} travel unencrypted to {address}",
     "use a url that begins with https://, with cert_file and key_file, or listen at 127.0.0.1 "
     "behind a proxy with TLS"},
    {Severity::error, "open-endpoint",
     [](F f) { return !f.is("is_loopback") && !f.is("is_guarded"); },
     "anybody who reaches {address} could post events, so dovetail does not listen there",
     "set password_env, secret_env or secret_file"},
    {Severity::note, "open-endpoint",
     [](F f) { return f.is("is_loopback") && !f.is("is_guarded"); },
     "every process of this machine can post events",
     "if that is too open, set password_env, secret_env or secret_file"},
};

}  // namespace

Result<std::vector<Finding>> examine(const SinkOptions& options, Duration confirm_timeout,
                                     Clock& clock) {
  DOVETAIL_TRY(check(options));
  const Result<UrlTemplate> url = UrlTemplate::parse(options.url);
  if (!url) return fail(url.error());
  const bool has_password = !options.password.empty();
  Facts facts;
  facts.set("is_https", url->is_https())
      .set("is_loopback", is_loopback(url->host()))
      .set("host", url->host())
      .set("base", url->base())
      .set("has_password", has_password)
      .set("and_secret", has_password ? " and the password" : "")
      .set("is_signed", !options.secrets.empty())
      .set("allow_private", options.allow_private)
      .set("confirm_timeout", confirm_timeout)
      .set("request_timeout", options.request_timeout);
  Transfers transfers(options, *url, clock);
  const Result<Transfers::Greeting> greeting = transfers.greet();
  if (!greeting) return fail(greeting.error());
  facts.set("status", greeting->status);
  if (greeting->date)
    facts.set("apart", Duration(std::chrono::abs(clock.wall() - *greeting->date)));
  Findings findings;
  findings.check(kSink, facts);
  return findings.take();
}

Result<std::vector<Finding>> examine(const SourceOptions& options) {
  DOVETAIL_TRY(check(options));
  const bool has_token = !options.token.empty();
  Facts facts;
  facts.set("address", options.address)
      .set("is_loopback", is_loopback(options.address))
      .set("has_tls", !options.cert_file.empty())
      .set("has_token", has_token)
      .set("and_secret", has_token ? " and the token" : "")
      .set("is_guarded", has_token || !options.secrets.empty());
  Findings findings;
  findings.check(kSource, facts);
  return findings.take();
}

}  // namespace dovetail::http
