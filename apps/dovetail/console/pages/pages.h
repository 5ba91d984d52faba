// The dashboard: files that are part of the binary.
#pragma once

#include <string_view>
#include <vector>

#include "console/route.h"

namespace dovetail::console {

struct PageFile {
  std::string_view path;
  std::string_view type;
  std::string_view text;
};
const std::vector<PageFile>& page_files();

// For everybody: they hold no data, and who is not signed in sees the form for that.
std::vector<Route> page_routes();

}  // namespace dovetail::console
