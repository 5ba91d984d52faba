#include "rabbitmq/confirmations.h"

namespace dovetail::rabbitmq {

void Confirmations::published(std::uint64_t tag, const EventId& id) {
  sent_.push_back(Sent{tag, id});
  ++outstanding_;
}

void Confirmations::returned(std::string_view id, const std::string& why) {
  const Result<EventId> wanted = EventId::parse(id);
  if (!wanted) return;
  // Returns arrive in publishing order, so the search is short.
  for (Sent& sent : sent_) {
    if (sent.settled || sent.id != *wanted || !sent.why_returned.empty()) continue;
    sent.why_returned = why;
    return;
  }
}

bool Confirmations::acked(std::uint64_t number, bool multiple) {
  return settle(number, multiple, Outcome{Fate::confirmed});
}

bool Confirmations::nacked(std::uint64_t number, bool multiple) {
  return settle(number, multiple,
                Outcome{Fate::busy, 0,
                        "RabbitMQ refused the message (nack); check whether its queue is full "
                        "(overflow reject-publish) or has lost its leader"});
}

void Confirmations::settle_one(Sent& sent, const Outcome& outcome) {
  if (sent.settled) return;
  sent.settled = true;
  --outstanding_;
  if (sent.why_returned.empty())
    tracker_.resolve(sent.tag, outcome);
  else
    tracker_.resolve(sent.tag, Outcome{Fate::busy, 0, std::move(sent.why_returned)});
}

bool Confirmations::settle(std::uint64_t number, bool multiple, const Outcome& outcome) {
  const std::uint64_t end = first_number_ + sent_.size();
  if (number == 0 && multiple) number = end - 1;  // all of them
  if (number == 0 || number >= end) return false;
  if (number >= first_number_) {
    const auto index = static_cast<std::size_t>(number - first_number_);
    for (std::size_t i = multiple ? 0 : index; i <= index; ++i) settle_one(sent_[i], outcome);
  }
  while (!sent_.empty() && sent_.front().settled) {
    sent_.pop_front();
    ++first_number_;
  }
  return true;
}

std::vector<EventId> Confirmations::give_up(const Outcome& outcome) {
  std::vector<EventId> ids;
  for (Sent& sent : sent_) {
    if (!sent.settled && sent.why_returned.empty()) ids.push_back(sent.id);
    settle_one(sent, outcome);
  }
  clear();
  return ids;
}

void Confirmations::clear() {
  sent_.clear();
  first_number_ = 1;
  outstanding_ = 0;
}

}  // namespace dovetail::rabbitmq
