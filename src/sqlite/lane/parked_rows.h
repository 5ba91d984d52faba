// Which unfinished event of a key stands first. The row says so itself (`at_head`), so that looking
// for due events never walks over the many that wait behind a head.
#pragma once

#include <string_view>

#include "dovetail/result.h"
#include "sqlite/connection/database.h"

namespace dovetail::sqlite {

class ParkedHeads {
 public:
  Status prepare(const Database& database);
  // Call after rows of the key were added or finished, inside the same transaction.
  Status refresh(std::string_view reader, std::string_view aggregate_type,
                 std::string_view aggregate_id);

 private:
  Statement clear_;
  Statement set_;
};

}  // namespace dovetail::sqlite
