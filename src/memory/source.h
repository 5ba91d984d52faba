// A source over a MemoryLog. The MemoryReader keeps its progress, so a new source over both
// continues where the last one settled.
#pragma once

#include <cstdint>

#include "core/relay/source.h"
#include "memory/log.h"
#include "memory/reader.h"

namespace dovetail {

class MemorySource final : public Source {
 public:
  // Without a lease, writes are not checked. All must outlive the source.
  MemorySource(MemoryLog& log, MemoryReader& reader, const MemoryLease* lease = nullptr)
      : log_(log), reader_(reader), lease_(lease) {}

  Status open() override;
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override;
  Status settle(const Batch& batch, std::span<const Settled> fates) override;
  Status flush() override;

 private:
  MemoryLog& log_;
  MemoryReader& reader_;
  const MemoryLease* lease_;
  std::int64_t read_ = 0;
  std::int64_t settled_ = 0;
};

}  // namespace dovetail
