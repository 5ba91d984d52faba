#include "core/reconcile/handlers.h"

#include <algorithm>
#include <utility>

namespace dovetail::reconcile {

Result<std::vector<KnownHandler>> choose_handlers(std::vector<KnownHandler> known,
                                                  const std::string& consumer,
                                                  const std::vector<std::string>& wanted) {
  const bool has_names = known.size() > 1;
  std::vector<KnownHandler> chosen;
  for (KnownHandler& handler : known) {
    const bool is_wanted =
        wanted.empty() ? handler.name != consumer || !has_names
                       : std::find(wanted.begin(), wanted.end(), handler.name) != wanted.end();
    if (is_wanted) chosen.push_back(std::move(handler));
  }
  if (chosen.empty() || chosen.size() < wanted.size())
    return fail(Errc::rejected, "this inbox does not know the consumer \"" + consumer +
                                    "\" with all its handlers; check the name, and that the "
                                    "consumer has run");
  std::sort(chosen.begin(), chosen.end(),
            [](const KnownHandler& a, const KnownHandler& b) { return a.name < b.name; });
  return chosen;
}

std::vector<std::string> names_of(const std::vector<KnownHandler>& handlers) {
  std::vector<std::string> names;
  for (const KnownHandler& handler : handlers) names.push_back(handler.name);
  return names;
}

}  // namespace dovetail::reconcile
