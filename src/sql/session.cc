#include "sql/session.h"

#include <cstring>
#include <utility>

#include "core/check.h"

namespace dovetail {

const SqlRows::Value& SqlRows::at(std::size_t row, std::size_t column) const {
  DOVETAIL_CHECK(column < columns_ && row < size());
  return values_[row * columns_ + column];
}

bool SqlRows::is_null(std::size_t row, std::size_t column) const {
  return std::holds_alternative<std::monostate>(at(row, column));
}

std::int64_t SqlRows::integer(std::size_t row, std::size_t column) const {
  const auto* value = std::get_if<std::int64_t>(&at(row, column));
  DOVETAIL_CHECK(value != nullptr);
  return *value;
}

WallTime SqlRows::time(std::size_t row, std::size_t column) const {
  return WallTime{std::chrono::microseconds{integer(row, column)}};
}

Duration SqlRows::microseconds(std::size_t row, std::size_t column) const {
  return Duration{integer(row, column)};
}

const std::string& SqlRows::bytes(std::size_t row, std::size_t column) const {
  const auto* value = std::get_if<std::string>(&at(row, column));
  DOVETAIL_CHECK(value != nullptr);
  return *value;
}

EventId SqlRows::id(std::size_t row, std::size_t column) const {
  const std::string& value = bytes(row, column);
  EventId id;
  DOVETAIL_CHECK(value.size() == id.bytes.size());
  std::memcpy(id.bytes.data(), value.data(), value.size());
  return id;
}

std::uint64_t count_in(const SqlRows& rows) {
  return static_cast<std::uint64_t>(rows.empty() ? rows.affected() : rows.integer(0, 0));
}

Result<SqlTransaction> SqlTransaction::begin(SqlSession& session, std::string_view doing) {
  DOVETAIL_TRY(session.begin(doing));
  return SqlTransaction(session, doing);
}

SqlTransaction::SqlTransaction(SqlTransaction&& other) noexcept
    : session_(std::exchange(other.session_, nullptr)), doing_(std::move(other.doing_)) {}

SqlTransaction::~SqlTransaction() {
  if (session_ != nullptr) session_->rollback();
}

Status SqlTransaction::commit() {
  SqlSession* const session = std::exchange(session_, nullptr);
  DOVETAIL_CHECK(session != nullptr);
  return session->commit(doing_);
}

}  // namespace dovetail
