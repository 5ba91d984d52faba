// Calls a handler of the application.
#pragma once

#include <exception>
#include <string>

#include "dovetail/result.h"

namespace dovetail {

// Calls `handle`; an exception becomes a failure.
template <class Handle>
Status guarded(const Handle& handle) {
  try {
    return handle();
  } catch (const std::exception& thrown) {
    return fail(Errc::failed,
                std::string("the handler threw: ") + thrown.what() + "; check the handler");
  } catch (...) {
    return fail(Errc::failed,
                "the handler threw an object that is not a std::exception; check the handler");
  }
}

}  // namespace dovetail
