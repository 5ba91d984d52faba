// A broker as the source of a consumer whose lease, counts and parked events are in PostgreSQL.
#pragma once

#include <memory>
#include <utility>

#include "core/lease.h"
#include "core/source.h"
#include "dovetail/origin.h"
#include "postgres/outside.h"

namespace dovetail::postgres {

// The broker's own source is made anew for each session: whoever has lost the lane must not stay in
// the broker's group with messages that another waits for. One thread at a time.
class OriginSource final : public Source {
 public:
  OriginSource(Origin origin, Reader& reader, Clock& clock)
      : origin_(std::move(origin)), progress_(reader), clock_(clock) {}

  void drop() { source_.reset(); }

  Status open() override;
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override;
  Status settle(const Batch& batch, std::span<const Settled> fates) override;
  Status flush() override;

 private:
  Origin origin_;
  OutsideProgress progress_;
  Clock& clock_;
  std::unique_ptr<Source> source_{};
};

// Lets go of the broker before it asks for the lane, and with it.
class OriginLease final : public Lease {
 public:
  OriginLease(OriginSource& source, Lease& lease) : source_(source), lease_(lease) {}

  Status acquire() override {
    source_.drop();
    return lease_.acquire();
  }
  Status renew() override { return lease_.renew(); }
  Status release() override {
    source_.drop();
    return lease_.release();
  }
  TimePoint deadline() const override { return lease_.deadline(); }
  TimePoint renew_at() const override { return lease_.renew_at(); }

 private:
  OriginSource& source_;
  Lease& lease_;
};

}  // namespace dovetail::postgres
