// Owns an object of a C library; its size is one pointer. A header that hides the library declares
// the library's free function itself.
#pragma once

#include <memory>

namespace dovetail {

template <auto Free>
struct Freer {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};

template <class T, auto Free>
using Handle = std::unique_ptr<T, Freer<Free>>;

}  // namespace dovetail
