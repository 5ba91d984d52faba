#include "webhook/examine.h"

#include <string>
#include <utility>

#include "host/stream.h"
#include "webhook/answer.h"
#include "webhook/sink.h"
#include "webhook/source.h"
#include "webhook/transfers.h"
#include "webhook/url.h"

namespace dovetail::http {

namespace {

// Standard Webhooks tolerates five minutes.
constexpr Duration kClockNote = std::chrono::minutes(1);
constexpr Duration kClockError = std::chrono::minutes(5);

using net::is_loopback;

void examine_settings(const SinkOptions& options, const UrlTemplate& url, Duration confirm_timeout,
                      std::vector<Finding>& findings) {
  const bool has_credentials = !options.password.empty();
  if (!url.is_https() && !is_loopback(url.host()))
    findings.push_back({has_credentials ? Severity::error : Severity::warning, "plain-http",
                        "events" + std::string(has_credentials ? " and the password" : "") +
                            " travel unencrypted to " + url.base(),
                        "use a url that begins with https://"});
  if (options.secrets.empty())
    findings.push_back(
        {has_credentials ? Severity::note : Severity::warning, "unsigned",
         "requests are not signed, so the receiver cannot detect forged ones",
         "set secret_env or secret_file, and verify webhook-signature at the receiver"});
  if (options.allow_private && !is_loopback(url.host()))
    findings.push_back({Severity::warning, "allow-private",
                        "allow_private is set: the owner of the name " + url.host() +
                            " can direct requests to private addresses of your network",
                        "set allow_private = false, unless the endpoint is in your network"});
  if (confirm_timeout > Duration{0} && options.request_timeout >= confirm_timeout)
    findings.push_back(
        {Severity::warning, "request-timeout",
         "a request may take longer than confirm_timeout of the relay, which then drops "
         "the confirmations of other requests, too",
         "set request_timeout below the relay's confirm_timeout"});
}

void examine_greeting(const Transfers::Greeting& greeting, const SinkOptions& options, WallTime now,
                      std::vector<Finding>& findings) {
  if (greeting.status >= 300 && greeting.status < 400)
    findings.push_back({Severity::warning, "redirect",
                        "the endpoint answers " + std::to_string(greeting.status) +
                            ", and redirects are never followed",
                        "set url to the new address"});
  if (greeting.status == 410)
    findings.push_back({Severity::error, "gone", "the endpoint answers 410: it is gone permanently",
                        "set another url"});
  if (!greeting.date || options.secrets.empty()) return;
  const Duration apart = std::chrono::abs(now - *greeting.date);
  if (apart > kClockNote)
    findings.push_back(
        {apart >= kClockError ? Severity::error : Severity::warning, "clock",
         "the endpoint's clock and ours are " +
             std::to_string(std::chrono::duration_cast<std::chrono::seconds>(apart).count()) +
             " s apart, and a signature is valid only for some minutes",
         "synchronise both clocks, for example by NTP"});
}

}  // namespace

Result<std::vector<Finding>> examine(const SinkOptions& options, Duration confirm_timeout,
                                     Clock& clock) {
  DOVETAIL_TRY(check(options));
  const Result<UrlTemplate> url = UrlTemplate::parse(options.url);
  if (!url) return fail(url.error());
  std::vector<Finding> findings;
  examine_settings(options, *url, confirm_timeout, findings);
  Transfers transfers(options, *url, clock);
  const Result<Transfers::Greeting> greeting = transfers.greet();
  if (!greeting) return fail(greeting.error());
  examine_greeting(*greeting, options, clock.wall(), findings);
  return findings;
}

Result<std::vector<Finding>> examine(const SourceOptions& options) {
  DOVETAIL_TRY(check(options));
  std::vector<Finding> findings;
  const bool is_guarded = !options.token.empty() || !options.secrets.empty();
  if (!is_loopback(options.address)) {
    if (options.cert_file.empty())
      findings.push_back(
          {options.token.empty() ? Severity::warning : Severity::error, "plain-http",
           "events" + std::string(options.token.empty() ? "" : " and the token") +
               " travel unencrypted to " + options.address,
           "use a url that begins with https://, with cert_file and key_file, or listen "
           "at 127.0.0.1 behind a proxy with TLS"});
    if (!is_guarded)
      findings.push_back({Severity::error, "open-endpoint",
                          "anybody who reaches " + options.address +
                              " could post events, so dovetail "
                              "does not listen there",
                          "set password_env, secret_env or secret_file"});
  } else if (!is_guarded) {
    findings.push_back({Severity::note, "open-endpoint",
                        "every process of this machine can post events",
                        "if that is too open, set password_env, secret_env or secret_file"});
  }
  return findings;
}

}  // namespace dovetail::http
