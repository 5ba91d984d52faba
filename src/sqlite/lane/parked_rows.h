// Marks the first unfinished event of a key in its row (`at_head`), so that a search for due events
// never walks over the events that wait behind a head.
#pragma once

#include <string_view>

#include "dovetail/result.h"
#include "sqlite/connection/database.h"

namespace dovetail::sqlite {

class ParkedHeads {
 public:
  Status prepare(const Database& database);
  // Call it in the transaction that added or finished rows of the key.
  Status refresh(std::string_view reader, std::string_view aggregate_type,
                 std::string_view aggregate_id);

 private:
  Statement clear_;
  Statement set_;
};

}  // namespace dovetail::sqlite
