// A database server between two crashes.
#pragma once

#include <string_view>

namespace dovetail {

// Whether a snapshot still says which transactions have ended. It was taken in the run `known`, and
// the server is in the run `now`: a crash between them lets the server give numbers of transactions
// twice, so that the snapshot would show new ones as old. Empty: the server does not know its run.
bool is_same_run(std::string_view known, std::string_view now);

}  // namespace dovetail
