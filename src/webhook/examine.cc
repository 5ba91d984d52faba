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

// Standard Webhooks gives clocks five minutes.
constexpr Duration kClockNote = std::chrono::minutes(1);
constexpr Duration kClockError = std::chrono::minutes(5);

using net::is_loopback;

void examine_settings(const SinkOptions& options, const UrlTemplate& url, Duration confirm_timeout,
                      std::vector<Finding>& findings) {
  const bool has_credentials = !options.password.empty();
  if (!url.is_https() && !is_loopback(url.host()))
    findings.push_back({has_credentials ? Severity::error : Severity::warning, "plain-http",
                        "events" + std::string(has_credentials ? " and the password" : "") +
                            " travel readable to " + url.base(),
                        "let the url begin with https://"});
  if (options.secrets.empty())
    findings.push_back(
        {has_credentials ? Severity::note : Severity::warning, "unsigned",
         "requests are not signed, so the receiver cannot tell them from forged ones",
         "set secret_env or secret_file, and let the receiver verify "
         "webhook-signature"});
  if (options.allow_private && !is_loopback(url.host()))
    findings.push_back({Severity::warning, "allow-private",
                        "allow_private lets whoever owns the name " + url.host() +
                            " lead requests to addresses inside of our network",
                        "set allow_private = false, unless the endpoint is inside"});
  if (confirm_timeout > Duration{0} && options.request_timeout >= confirm_timeout)
    findings.push_back({Severity::warning, "request-timeout",
                        "a request may take longer than the relay waits for confirmations, which "
                        "then throws away what other requests have confirmed",
                        "set request_timeout below the relay's confirm_timeout"});
}

void examine_greeting(const Transfers::Greeting& greeting, const SinkOptions& options, WallTime now,
                      std::vector<Finding>& findings) {
  if (greeting.status >= 300 && greeting.status < 400)
    findings.push_back({Severity::warning, "redirect",
                        "the endpoint answers " + std::to_string(greeting.status) +
                            ", and redirects are never followed",
                        "set url to where the endpoint is"});
  if (greeting.status == 410)
    findings.push_back({Severity::error, "gone", "the endpoint answers 410: it is gone for good",
                        "set another url"});
  if (!greeting.date || options.secrets.empty()) return;
  const Duration apart = std::chrono::abs(now - *greeting.date);
  if (apart > kClockNote)
    findings.push_back(
        {apart >= kClockError ? Severity::error : Severity::warning, "clock",
         "the endpoint's clock and ours are " +
             std::to_string(std::chrono::duration_cast<std::chrono::seconds>(apart).count()) +
             " s apart, and a signature counts only near its time",
         "set both clocks, for example by NTP"});
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
      findings.push_back({options.token.empty() ? Severity::warning : Severity::error, "plain-http",
                          "events" + std::string(options.token.empty() ? "" : " and the token") +
                              " travel readable to " + options.address,
                          "let the url begin with https://, with cert_file and key_file, or listen "
                          "at 127.0.0.1 behind a proxy that has TLS"});
    if (!is_guarded)
      findings.push_back({Severity::error, "open-endpoint",
                          "anybody who reaches " + options.address +
                              " could post events, so it is "
                              "not listened at",
                          "set password_env, secret_env or secret_file"});
  } else if (!is_guarded) {
    findings.push_back({Severity::note, "open-endpoint",
                        "every process of this machine can post events",
                        "set password_env, secret_env or secret_file where that is too many"});
  }
  return findings;
}

}  // namespace dovetail::http
