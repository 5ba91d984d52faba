// Object ids of types, as in pg_type; the same in every server.
#pragma once

#include <cstdint>

namespace dovetail::postgres {

enum Type : std::uint32_t {
  kUnknown = 0,
  kBool = 16,
  kBytea = 17,
  kName = 19,
  kInt8 = 20,
  kInt2 = 21,
  kInt4 = 23,
  kText = 25,
  kByteaArray = 1001,
  kInt4Array = 1007,
  kTextArray = 1009,
  kInt8Array = 1016,
  kVarchar = 1043,
  kTimestamptz = 1184,
  kTimestamptzArray = 1185,
  kVoid = 2278,
  kUuid = 2950,
  kUuidArray = 2951,
};

}  // namespace dovetail::postgres
