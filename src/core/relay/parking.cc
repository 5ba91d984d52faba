#include "core/relay/parking.h"

#include "core/event/name_id.h"

namespace dovetail {

namespace {

EventId id_of_second(const Event& event) {
  std::string name;
  for (const std::string_view part : {event.aggregate_type, event.aggregate_id, event.type})
    name += std::to_string(part.size()) + ":" + std::string(part);
  return name_id(event.id, name + std::string(event.payload));
}

}  // namespace

bool is_same_event(const Event& one, const Event& other) {
  return one.id == other.id && one.payload == other.payload && one.type == other.type &&
         one.aggregate_type == other.aggregate_type && one.aggregate_id == other.aggregate_id;
}

SecondEvent::SecondEvent(const ParkRequest& first) : event_(*first.event), request_(first) {
  event_.id = id_of_second(event_);
  request_.event = &event_;
  request_.state = ParkState::parked;
  request_.reason = "another event with the id " + first.event->id.to_string() +
                    " is parked, so this one is stored as " + event_.id.to_string() +
                    "; check why the id was used twice, then replay or discard this event. " +
                    first.reason;
}

}  // namespace dovetail
