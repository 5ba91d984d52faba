#include "webhook/signed_forms.h"

#include <cstring>

#include "core/event/sha256.h"

namespace dovetail::http {

namespace {

constexpr std::size_t kFormBytes = 15;  // fits into a std::string without allocation

// The lengths separate the parts unambiguously.
std::string form_of(const Event& event) {
  Sha256 hash;
  for (const std::string_view part :
       {event.topic, event.aggregate_type, event.aggregate_id, event.type, event.content_type})
    hash.add(std::to_string(part.size())).add(":").add(part);
  hash.add(std::to_string(event.aggregate_version));
  return hash.finish().substr(0, kFormBytes);
}

}  // namespace

std::size_t SignedForms::Hash::operator()(const EventId& id) const {
  std::size_t hash = 0;
  // The end of a UUID is its random part.
  std::memcpy(&hash, id.bytes.data() + id.bytes.size() - sizeof(hash), sizeof(hash));
  return hash;
}

void SignedForms::forget(TimePoint now) {
  while (!seen_.empty() && (now - seen_.front().at > keep_ || forms_.size() >= count_max_)) {
    forms_.erase(seen_.front().id);
    seen_.pop_front();
  }
}

bool SignedForms::agrees(const Event& event, TimePoint now) {
  forget(now);
  std::string form = form_of(event);
  const auto found = forms_.find(event.id);
  if (found != forms_.end()) return found->second == form;
  forms_.emplace(event.id, std::move(form));
  seen_.push_back({event.id, now});
  return true;
}

}  // namespace dovetail::http
