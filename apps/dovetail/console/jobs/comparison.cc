#include "console/jobs/comparison.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "assembly/reconcile.h"
#include "config/units.h"
#include "console/api/call.h"
#include "console/jobs/jobs.h"
#include "core/event/time_text.h"
#include "reports/reconcile_report.h"

namespace dovetail::console {
namespace {

using assembly::ReconcileProgress;
using assembly::ReconcileRequest;

// Of each kind; the report counts all.
constexpr std::size_t kFindingsMax = 200;

Expected<bool> read_names(const Json& body, ReconcileRequest& request) {
  const std::pair<const char*, std::string*> names[] = {
      {"outbox", &request.outbox},     {"inbox", &request.inbox},
      {"consumer", &request.consumer}, {"topic_store", &request.topic_store},
      {"topic", &request.topic},       {"relay", &request.relay}};
  for (const auto& [name, into] : names) {
    auto text = text_in(body, name);
    if (!text) return tl::unexpected(text.error());
    *into = std::move(*text);
  }
  if (request.outbox.empty()) return refuse(Exit::usage, "name the store of the outbox: outbox");
  if (request.topic.empty() != request.topic_store.empty() ||
      request.inbox.empty() == request.topic.empty())
    return refuse(Exit::usage, "name the receiver: inbox, or topic_store and topic");
  return true;
}

Expected<bool> read_times(const Json& body, ReconcileRequest& request) {
  const std::pair<const char*, std::optional<WallTime>*> times[] = {{"from", &request.from},
                                                                    {"to", &request.to}};
  for (const auto& [name, into] : times) {
    const auto text = text_in(body, name);
    if (!text) return tl::unexpected(text.error());
    if (text->empty()) continue;
    *into = parse_time(*text);
    if (!*into)
      return refuse(Exit::usage,
                    std::string(name) + " must be a time, such as 2026-01-31T09:05:00Z");
  }
  if (request.from && request.to && *request.from >= *request.to)
    return refuse(Exit::usage, "from must be before to");
  const auto late = text_in(body, "late_after");
  if (!late) return tl::unexpected(late.error());
  if (late->empty()) return true;
  const auto duration = app::duration_of(*late, "late_after");
  if (!duration) return tl::unexpected(duration.error());
  request.late_after = *duration;
  return true;
}

Expected<ReconcileRequest> request_of(const config::Config& config, const Json& body) {
  ReconcileRequest request;
  request.findings_max = kFindingsMax;
  if (const auto names = read_names(body, request); !names) return tl::unexpected(names.error());
  if (const auto times = read_times(body, request); !times) return tl::unexpected(times.error());
  const auto others = flag_in(body, "other_sources");
  if (!others) return tl::unexpected(others.error());
  request.has_other_sources = *others;
  for (const std::string* name : {&request.outbox, &request.inbox, &request.topic_store}) {
    if (name->empty()) continue;
    const config::StoreConfig* const store = config.find_store(*name);
    if (store == nullptr) return refuse(Exit::usage, "the config has no store \"" + *name + "\"");
    if (const auto checked = app::check_secrets(*store); !checked)
      return tl::unexpected(checked.error());
  }
  return request;
}

Result<JobProduct> compare(const Desk& desk, const ReconcileRequest& request,
                           const Jobs::Watch& watch) {
  const auto report = assembly::reconcile_stores(
      desk.config, request, desk.clock, [&watch](const ReconcileProgress& progress) {
        return watch({std::string(progress.doing), progress.read, progress.of});
      });
  if (!report) return fail(report.error());
  auto document = std::make_shared<const Json>(app::json_of(*report, request));
  auto page = std::make_shared<const std::string>(app::page_of(*report, *document));
  return JobProduct{std::move(document), std::move(page)};
}

Expected<Json> begin(const std::shared_ptr<Desk>& desk, Jobs& jobs, const Request& request,
                     const Identity& who) {
  const auto body = body_of(request, {"outbox", "inbox", "consumer", "topic_store", "topic",
                                      "relay", "from", "to", "late_after", "other_sources"});
  if (!body) return tl::unexpected(body.error());
  const auto wanted = request_of(desk->config, *body);
  if (!wanted) return tl::unexpected(wanted.error());
  const auto id = jobs.begin(who.name, *body, [desk, wanted = *wanted](const Jobs::Watch& watch) {
    return compare(*desk, wanted, watch);
  });
  if (!id)
    return refuse(Exit::rejected,
                  "a comparison is running; wait for it, or stop it: one runs at a time");
  return Json{{"id", *id}};
}

Json json_of(const JobView& job) {
  Json json{{"id", job.id},
            {"kind", "reconcile"},
            {"state", to_string(job.state)},
            {"by", job.by},
            {"asked", *job.asked},
            {"started_at", config::iso_time(job.started_at)},
            {"ended_at", nullptr},
            {"doing", job.progress.doing},
            {"read", job.progress.read},
            {"of", nullptr},
            {"error", nullptr}};
  if (job.ended_at) json["ended_at"] = config::iso_time(*job.ended_at);
  if (job.progress.of != 0) json["of"] = job.progress.of;
  if (!job.error.empty()) json["error"] = job.error;
  return json;
}

Expected<JobView> job_of(const Jobs& jobs, const Request& request) {
  const std::string& id = request.places.find("id")->second;
  auto job = jobs.find(id);
  if (job) return std::move(*job);
  return refuse(Exit::negative, "this process has no job " + id +
                                    "; it keeps the last few until it ends: start it again");
}

Expected<Json> show(const Jobs& jobs, const Request& request) {
  const auto job = job_of(jobs, request);
  if (!job) return tl::unexpected(job.error());
  Json json = json_of(*job);
  json["result"] = job->product.document ? *job->product.document : Json(nullptr);
  return json;
}

// To keep: its own policy lets it have its style, and ours would not.
Reply report_of(const Jobs& jobs, const Request& request) {
  const auto job = job_of(jobs, request);
  if (!job) return error_reply(404, "missing", job.error().text);
  if (!job->product.page)
    return error_reply(404, "missing", "the job " + job->id + " has no report");
  Reply reply;
  reply.status = 200;
  reply.headers.push_back({"Content-Type", "text/html; charset=utf-8"});
  reply.headers.push_back(
      {"Content-Disposition", "attachment; filename=\"reconcile-" + job->id + ".html\""});
  reply.body = *job->product.page;
  return reply;
}

}  // namespace

std::vector<Route> job_routes(const std::shared_ptr<Desk>& desk) {
  using Kind = Route::Kind;
  const auto jobs = std::make_shared<Jobs>(desk->clock);
  return {
      {"POST", "/api/v1/reconcile", Role::operator_, Kind::changes,
       answering([desk, jobs](const Request& request, const Identity& who) {
         return begin(desk, *jobs, request, who);
       })},
      {"GET", "/api/v1/jobs", Role::viewer, Kind::reads,
       answering([jobs](const Request& request, const Identity&) -> Expected<Json> {
         if (const auto named = check_query(request, {}); !named)
           return tl::unexpected(named.error());
         Json list = Json::array();
         for (const JobView& job : jobs->all()) list.push_back(json_of(job));
         return Json{{"jobs", list}};
       })},
      {"GET", "/api/v1/jobs/{id}", Role::viewer, Kind::reads,
       answering([jobs](const Request& request, const Identity&) { return show(*jobs, request); })},
      {"GET", "/api/v1/jobs/{id}/report", Role::viewer, Kind::reads,
       [jobs](const Request& request, const Identity&) { return report_of(*jobs, request); }},
      {"POST", "/api/v1/jobs/{id}/stop", Role::operator_, Kind::changes,
       answering([jobs](const Request& request, const Identity&) -> Expected<Json> {
         const auto job = job_of(*jobs, request);
         if (!job) return tl::unexpected(job.error());
         jobs->stop(job->id);
         return json_of(*job);
       })}};
}

}  // namespace dovetail::console
