// Owns an object of a C library, and is as wide as a pointer. A header that hides the library
// declares the function that frees the object, as the library does.
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
