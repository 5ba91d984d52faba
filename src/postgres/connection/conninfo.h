// Connection settings from an operator: checks them, shows them without secrets, and adds a
// password.
#pragma once

#include <string>

#include "dovetail/result.h"

namespace dovetail::postgres {

struct Conninfo {
  std::string keywords;  // key='value' pairs for libpq
  std::string shown;     // for people: only host, port, database and user
};

// `text`: key=value pairs or a postgresql:// URL. rejected: libpq does not understand it, or it
// contains a secret. No error quotes the text.
Result<Conninfo> parse_conninfo(const std::string& text);

// The same settings with a password.
std::string with_password(const Conninfo& conninfo, const std::string& password);

}  // namespace dovetail::postgres
