// Looks at a file the way an experienced operator would, and says what is wrong and what to do.
#pragma once

#include <string>
#include <vector>

#include "core/clock.h"
#include "core/operations.h"

namespace dovetail::sqlite {

// Changes nothing. An error only when the file cannot be read at all.
Result<std::vector<Finding>> examine(const std::string& path, Clock& clock);

}  // namespace dovetail::sqlite
