#include "console/watch/watch_routes.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "console/metrics/metrics.h"
#include "console/watch/readiness.h"
#include "overview/status_json.h"

namespace dovetail::console {
namespace {

using app::Json;

std::string text_of(const Json& document) {
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

struct Knowledge {
  const config::Config& config;
  const Roster& roster;
  const Watcher& watcher;

  std::vector<app::Problem> problems(const app::Overview& overview) const {
    return app::problems_of(overview, {.lag_max = config.alerts.lag_max});
  }
};

// Texts of errors may name hosts and users, so somebody without a token gets the kinds.
Json reasons_of(const std::vector<app::Problem>& problems, bool with_texts) {
  Json reasons = Json::array();
  for (const app::Problem& problem : problems) {
    if (with_texts)
      reasons.push_back(app::json_of(problem));
    else
      reasons.push_back({{"kind", to_string(problem.kind)}, {"title", problem.title}});
  }
  return reasons;
}

Reply readyz(const Knowledge& knowledge, const Identity& who) {
  const std::vector<Member> members = knowledge.roster.all();
  const app::Overview overview = knowledge.watcher.latest();
  const auto problems = knowledge.problems(overview);
  std::set<std::string> relays;
  for (const Member& member : members) relays.insert(member.relay->name);
  const Readiness readiness =
      readiness_of(problems, relays, overview.at, knowledge.config.alerts.away_max);
  const bool is_starting = members.empty() || !knowledge.watcher.is_complete();
  const bool has_texts = who.role >= Role::viewer;
  Json reasons = reasons_of(readiness.reasons, has_texts);
  if (is_starting && readiness.is_ready)
    reasons.push_back({{"kind", "starting"}, {"title", "The daemon looks at its databases"}});
  const bool is_ready = readiness.is_ready && !is_starting;
  const app::Verdict verdict = app::verdict_of(overview, problems);
  return json_reply(text_of({{"ready", is_ready},
                             {"verdict", {{"kind", verdict.kind}, {"title", verdict.title}}},
                             {"reasons", std::move(reasons)},
                             {"problems", reasons_of(problems, has_texts)}}),
                    is_ready ? 200 : 503);
}

Reply metrics(const Knowledge& knowledge) {
  const app::Overview overview = knowledge.watcher.latest();
  Samples samples;
  add_build(samples, DOVETAIL_VERSION);
  add_members(samples, knowledge.roster.all());
  add_stores(samples, overview);
  add_problems(samples, knowledge.problems(overview));
  Reply reply;
  reply.status = 200;
  reply.headers.push_back({"Content-Type", "text/plain; version=0.0.4; charset=utf-8"});
  reply.body = samples.text();
  return reply;
}

}  // namespace

std::vector<Route> watch_routes(const config::Config& config, const Roster& roster,
                                const Watcher& watcher) {
  const Knowledge knowledge{config, roster, watcher};
  const auto at_once = [](std::string path, Role role, Route::Handle handle) {
    return Route{"GET",
                 std::move(path),
                 role,
                 Route::Kind::reads,
                 std::move(handle),
                 Route::Where::listener};
  };
  return {
      at_once("/readyz", Role::nobody,
              [knowledge](const Request&, const Identity& who) { return readyz(knowledge, who); }),
      at_once("/metrics", Role::viewer,
              [knowledge](const Request&, const Identity&) { return metrics(knowledge); }),
      at_once("/api/v1/status", Role::viewer, [knowledge](const Request&, const Identity&) {
        const app::Overview overview = knowledge.watcher.latest();
        return json_reply(text_of(app::status_json(overview, knowledge.problems(overview))));
      })};
}

}  // namespace dovetail::console
