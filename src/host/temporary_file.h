// A file without a name, for what memory has no room for. It is gone when the process is.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "dovetail/result.h"

namespace dovetail {

// One thread.
class TemporaryFile {
 public:
  TemporaryFile() = default;
  TemporaryFile(TemporaryFile&& other) noexcept : descriptor_(other.descriptor_) {
    other.descriptor_ = -1;
  }
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile();

  // In $TMPDIR, or in the usual folder. For its owner alone. unavailable: it cannot be made.
  Status create();
  // unavailable: the disk is full, or fails.
  Status append(std::span<const std::uint8_t> bytes);
  // Fills `bytes`. REQUIRES: they were appended.
  Status read(std::uint64_t offset, std::span<std::uint8_t> bytes) const;

 private:
  int descriptor_ = -1;
};

}  // namespace dovetail
