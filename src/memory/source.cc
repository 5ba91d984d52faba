#include "memory/source.h"

#include <utility>

namespace dovetail {

Status MemorySource::open() {
  settled_ = reader_.settled();
  read_ = settled_;
  return {};
}

Status MemorySource::read(Batch& out, const Limits& limits, std::stop_token stop) {
  const std::size_t before = out.size();
  log_.read_behind(read_, out, limits, std::move(stop));
  if (out.size() > before) read_ = out.events().back().position;
  return {};
}

Status MemorySource::settle(const Batch& batch, std::span<const Settled>) {
  if (!batch.empty()) settled_ = batch.events().back().position;
  return {};
}

Status MemorySource::flush() {
  const std::int64_t epoch = lease_ == nullptr ? kUnfenced : lease_->epoch();
  return reader_.fenced(epoch, [&](MemoryReader& reader) { reader.settled_ = settled_; });
}

}  // namespace dovetail
