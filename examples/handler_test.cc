// A unit test of a handler and of what a relay makes of its receiver, without a server or a file.
// It uses no test framework, so that you can move it into yours.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "dovetail/testing.h"

namespace {

using dovetail::Errc;
using dovetail::Event;
using dovetail::NewEvent;
using dovetail::Status;
namespace test = dovetail::test;

// The handler of the service.
struct Stock {
  std::map<std::string, int, std::less<>> on_hand;

  Status take_one(const Event& event) {
    const auto product = on_hand.find(event.aggregate_id);
    if (product == on_hand.end()) return dovetail::fail(Errc::rejected, "no such product");
    if (product->second == 0) return dovetail::fail(Errc::failed, "none left");
    --product->second;
    return {};
  }
};

NewEvent sold(std::string_view product) {
  NewEvent event;
  event.aggregate_type = "product";
  event.aggregate_id = product;
  event.type = "ProductSold";
  event.payload = "{}";
  return event;
}

void require(bool holds, const char* claim) {
  if (holds) return;
  std::fprintf(stderr, "wrong: %s\n", claim);
  std::exit(1);
}

void test_the_handler() {
  Stock stock{{{"mug", 1}}};
  test::Consumer consumer([&](const Event& event) { return stock.take_one(event); });
  NewEvent mug = sold("mug");
  mug.id = dovetail::EventId::parse("01890000-0000-7000-8000-000000000001").value();
  require(consumer.deliver(mug)->fate == test::Fate::applied, "a mug is sold");
  require(consumer.deliver(mug)->fate == test::Fate::duplicate, "it comes again and is not sold");
  require(stock.on_hand["mug"] == 0, "one mug was taken");
  require(consumer.deliver(sold("mug"))->fate == test::Fate::failed, "it is tried again later");
  require(consumer.deliver(sold("boat"))->fate == test::Fate::parked, "an operator decides");
}

void test_the_receiver() {
  bool has_boats = false;
  test::Relay relay([&](const test::ReceivedEvent& event) -> Status {
    if (event.aggregate_id == "boat" && !has_boats)
      return dovetail::fail(Errc::rejected, "no boats here");
    return {};
  });
  for (const char* product : {"boat", "mug", "boat"})
    require(relay.publish(sold(product)).has_value(), "the event is valid");
  require(relay.run().has_value(), "the relay becomes idle");
  require(relay.received().size() == 1, "the mug passes");
  require(relay.parked().at(0).reason.find("no boats") != std::string::npos, "the reason is kept");

  has_boats = true;
  require(relay.replay(relay.parked()[0].event.id), "an operator replays it");
  require(relay.run().has_value() && relay.received().size() == 3, "what waited behind it follows");
}

}  // namespace

int main() {
  test_the_handler();
  test_the_receiver();
  std::printf("the handler does what it should\n");
}
