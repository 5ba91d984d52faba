#include "console/api/stores.h"

#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "config/units.h"
#include "console/api/call.h"
#include "documents/findings.h"
#include "documents/slots.h"
#include "host/errand.h"

namespace dovetail::console {
namespace {

// The last report of the doctor, who may take long with a store that is away, and who never looks
// twice at once.
class Doctor : public std::enable_shared_from_this<Doctor> {
 public:
  explicit Doctor(std::shared_ptr<Desk> desk) : desk_(std::move(desk)) {}

  // At most once in this time without being asked.
  static constexpr auto kFresh = std::chrono::minutes(10);

  Json report() {
    const std::lock_guard lock(mutex_);
    if (!at_ || desk_->clock.wall() - *at_ > kFresh) start();
    return said();
  }
  Json look_now() {
    const std::lock_guard lock(mutex_);
    start();
    return said();
  }

 private:
  Json said() const {  // REQUIRES: mutex_ is held
    return {{"at", at_ ? Json(config::iso_time(*at_)) : Json(nullptr)},
            {"running", is_running_},
            {"stores", stores_}};
  }
  void start() {  // REQUIRES: mutex_ is held
    if (is_running_) return;
    is_running_ = true;
    run_errand([self = shared_from_this()] { self->look(); });
  }
  void look() {
    Json stores = Json::array();
    for (const config::StoreConfig& store : desk_->config.stores)
      stores.push_back(app::json_of(store, app::examine(store, desk_->config)));
    const std::lock_guard lock(mutex_);
    stores_ = std::move(stores);
    at_ = desk_->clock.wall();
    is_running_ = false;
  }

  const std::shared_ptr<Desk> desk_;
  std::mutex mutex_{};
  std::optional<WallTime> at_{};
  bool is_running_ = false;
  Json stores_ = Json::array();
};

Expected<Json> list_slots(const Desk& desk, const Request& request) {
  if (const auto named = check_query(request, {"store"}); !named)
    return tl::unexpected(named.error());
  Json list = Json::array();
  const auto slots = app::list_slots(desk.config, std::string(request.asked("store")));
  if (!slots) return tl::unexpected(slots.error());
  for (const app::ListedSlot& one : *slots) list.push_back(app::json_of(one));
  return Json{{"slots", list}};
}

}  // namespace

std::vector<Route> store_routes(const std::shared_ptr<Desk>& desk) {
  using Kind = Route::Kind;
  const auto doctor = std::make_shared<Doctor>(desk);
  return {{"GET", "/api/v1/doctor", Role::viewer, Kind::reads,
           answering([doctor](const Request& request, const Identity&) -> Expected<Json> {
             if (const auto named = check_query(request, {}); !named)
               return tl::unexpected(named.error());
             return doctor->report();
           }),
           Route::Where::listener},
          {"POST", "/api/v1/doctor", Role::operator_, Kind::changes,
           answering([doctor](const Request& request, const Identity&) -> Expected<Json> {
             if (const auto body = body_of(request, {}); !body) return tl::unexpected(body.error());
             return doctor->look_now();
           }),
           Route::Where::listener},
          {"GET", "/api/v1/slots", Role::viewer, Kind::reads,
           answering([desk](const Request& request, const Identity&) {
             return list_slots(*desk, request);
           })}};
}

}  // namespace dovetail::console
