#include "assembly/secrets.h"

#include <cstdlib>
#include <fstream>

namespace dovetail::assembly {

Result<std::string> read_password(const config::StoreConfig& store) {
  if (!store.password_env.empty()) {
    const char* value = std::getenv(store.password_env.c_str());
    if (value == nullptr || *value == '\0') {
      return fail(Errc::rejected,
                  "password_env names the variable " + store.password_env +
                      ", which is not set or empty; set it in the environment of dovetail");
    }
    return std::string(value);
  }
  if (store.password_file.empty()) return std::string();
  std::ifstream file(store.password_file);
  std::string line;
  if (!std::getline(file, line) || line.empty()) {
    return fail(Errc::rejected, "password_file " + store.password_file.string() +
                                    " cannot be read, or its first line is empty; check the path "
                                    "and its permissions");
  }
  if (line.back() == '\r') line.pop_back();
  return line;
}

}  // namespace dovetail::assembly
