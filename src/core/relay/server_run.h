// The run of a database server: the time between two crashes.
#pragma once

#include <string_view>

namespace dovetail {

// Whether a snapshot of run `known` is still valid in run `now`. After a crash the server may reuse
// transaction numbers, and the snapshot would show new transactions as old. Empty: the server does
// not tell its run.
bool is_same_run(std::string_view known, std::string_view now);

}  // namespace dovetail
