// The brokers as origins of an application's consumer, each with its test server.
#pragma once

#include <memory>
#include <vector>

#include "core/relay/sink.h"
#include "dovetail/origin.h"

namespace dovetail::live {

// One broker with a place of its own on its server, as long as this object.
class OriginUnderTest {
 public:
  virtual ~OriginUnderTest() = default;
  // Reads the topic "orders.events".
  virtual Result<Origin> origin() = 0;
  // Fills it. An HTTP endpoint answers when the event is applied.
  virtual std::unique_ptr<Sink> sink() = 0;
};

struct OriginCase {
  const char* name;
  bool drops_repeats;  // by their id, before a consumer sees them
  std::unique_ptr<OriginUnderTest> (*make)();
};

extern const OriginCase kKafkaOrigin;
extern const OriginCase kRabbitmqOrigin;
extern const OriginCase kNatsOrigin;
extern const OriginCase kRedisOrigin;
extern const OriginCase kHttpOrigin;

}  // namespace dovetail::live
