// Which handlers of a consumer are compared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dovetail/result.h"

namespace dovetail::reconcile {

// A handler as an inbox knows it.
struct KnownHandler {
  std::int64_t id = 0;
  std::string name{};  // of the consumer, or "stock.ledger"
};

// `known` are the consumer and its handlers, in any order. `wanted` empty: all of them; a consumer
// whose handlers have names has no rows of its own. The result is ordered by name. rejected: the
// inbox does not know one.
Result<std::vector<KnownHandler>> choose_handlers(std::vector<KnownHandler> known,
                                                  const std::string& consumer,
                                                  const std::vector<std::string>& wanted);

std::vector<std::string> names_of(const std::vector<KnownHandler>& handlers);

}  // namespace dovetail::reconcile
