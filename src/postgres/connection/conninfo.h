// Connection settings as an operator writes them: checked, shown without secrets, and joined with a
// password that came from elsewhere.
#pragma once

#include <string>

#include "dovetail/result.h"

namespace dovetail::postgres {

struct Conninfo {
  std::string keywords;  // for libpq, as key='value' pairs
  std::string shown;     // for people: host, port, database and user, and nothing else
};

// `text`: key=value pairs or a postgresql:// URL. rejected: libpq does not understand it, or it
// holds a secret, which belongs elsewhere. No error quotes the text.
Result<Conninfo> parse_conninfo(const std::string& text);

// The same settings with a password.
std::string with_password(const Conninfo& conninfo, const std::string& password);

}  // namespace dovetail::postgres
