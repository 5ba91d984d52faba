#include "postgres/inbox/version_guard.h"

#include <vector>

namespace dovetail::postgres {

namespace {

constexpr std::string_view kMake =
    "INSERT INTO dovetail.applied_version (consumer_id, aggregate_type, aggregate_id, version) "
    "SELECT k.consumer, k.type, k.id, 0 FROM unnest($1::int[], $2::text[], $3::text[]) AS k "
    "(consumer, type, id) ON CONFLICT DO NOTHING";
constexpr std::string_view kLock =
    "SELECT v.consumer_id, v.aggregate_type, v.aggregate_id, v.version FROM "
    "dovetail.applied_version AS v JOIN unnest($1::int[], $2::text[], $3::text[]) AS k (consumer, "
    "type, id) ON v.consumer_id = k.consumer AND v.aggregate_type = k.type AND v.aggregate_id = "
    "k.id ORDER BY 1, 2, 3 FOR UPDATE OF v";
constexpr std::string_view kStore =
    "UPDATE dovetail.applied_version AS v SET version = k.version FROM unnest($1::int[], "
    "$2::text[], $3::text[], $4::bigint[]) AS k (consumer, type, id, version) WHERE "
    "v.consumer_id = k.consumer AND v.aggregate_type = k.type AND v.aggregate_id = k.id";

bool is_guarded(const Event& event) {
  return event.aggregate_version > 0 && !event.aggregate_id.empty();
}

}  // namespace

void VersionGuard::add(std::int32_t handler, const Event& event) {
  if (is_guarded(event)) versions_.try_emplace(key_of(handler, event));
}

Status VersionGuard::lock(Pipeline& pipeline) const {
  std::vector<std::int32_t> handlers;
  std::vector<std::string_view> types;
  std::vector<std::string_view> ids;
  for (const auto& [key, version] : versions_) {
    handlers.push_back(std::get<0>(key));
    types.push_back(std::get<1>(key));
    ids.push_back(std::get<2>(key));
  }
  const Params keys = Params().int4_array(handlers).text_array(types).text_array(ids);
  DOVETAIL_TRY(pipeline.send(kMake, keys));
  return pipeline.send(kLock, keys, Pipeline::Answer::kept);
}

void VersionGuard::read(const Rows& rows) {
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const Key key{rows.int4(row, 0), rows.text(row, 1), rows.text(row, 2)};
    versions_[key].value = rows.int8(row, 3);
  }
}

bool VersionGuard::knows_as_late(std::int32_t handler, const Event& event) const {
  if (!is_guarded(event)) return false;
  const auto known = versions_.find(key_of(handler, event));
  return known != versions_.end() && event.aggregate_version <= known->second.value;
}

bool VersionGuard::supersedes(std::int32_t handler, const Event& event) {
  if (knows_as_late(handler, event)) return true;
  if (is_guarded(event)) versions_[key_of(handler, event)] = {event.aggregate_version, true};
  return false;
}

Status VersionGuard::store(Pipeline& pipeline) const {
  std::vector<std::int32_t> handlers;
  std::vector<std::string_view> types;
  std::vector<std::string_view> ids;
  std::vector<std::int64_t> values;
  for (const auto& [key, version] : versions_) {
    if (!version.is_changed) continue;
    handlers.push_back(std::get<0>(key));
    types.push_back(std::get<1>(key));
    ids.push_back(std::get<2>(key));
    values.push_back(version.value);
  }
  if (values.empty()) return {};
  return pipeline.send(
      kStore, Params().int4_array(handlers).text_array(types).text_array(ids).int8_array(values));
}

}  // namespace dovetail::postgres
