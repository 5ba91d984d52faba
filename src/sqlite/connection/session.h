// A connection to a SQLite file, as the shared rules of src/sql use it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sql/session.h"
#include "sqlite/connection/database.h"

namespace dovetail::sqlite {

// Besides $1, $2, ... a statement may use the machine's clocks: `:now` is the wall clock,
// `:boot_time` the clock that never steps, and `:boot` the boot that it counts from. `:user` is the
// user of this process. Statements are prepared once per connection.
class SqliteSession : public SqlSession {
 public:
  // Opens the file in connect(). `clock` must outlive this.
  SqliteSession(std::string path, Durability durability, Clock& clock, std::string boot);
  // Uses a connection of the caller, such as the application's own, which must outlive this.
  SqliteSession(sqlite3* connection, Clock& clock, std::string boot);

  Status connect() override;
  void close() override;
  using SqlSession::run;
  Result<SqlRows> run(std::string_view sql, const SqlParams& params) override;
  Result<std::vector<SqlRows>> run_each(std::string_view sql,
                                        std::span<const SqlParams> each) override;
  Status begin(std::string_view doing) override;
  Status commit(std::string_view doing) override;
  void rollback() override;
  // Call it when the connection has no work for a while.
  void when_idle() { checkpointer_.when_idle(connection_, file_); }
  bool in_transaction() const override {
    return connection_ != nullptr && sqlite::in_transaction(connection_);
  }

 protected:
  // Called after the file is opened, to prepare what users need.
  virtual Status opened(Database&) { return {}; }

 private:
  struct Prepared {
    Statement statement{};
    int now = 0;  // the parameter's index; 0: not used
    int boot_time = 0;
    int boot = 0;
    int user = 0;
    std::vector<int> numbered{};
  };
  Result<Prepared*> prepare(std::string_view sql);
  void bind(Prepared& prepared, const SqlParams& params);
  Result<SqlRows> run(Prepared& prepared, const SqlParams& params);

  std::string path_;
  Durability durability_ = Durability::full;
  Clock& clock_;
  std::string boot_;
  std::string user_;  // empty: not read yet
  Database database_;
  sqlite3* connection_ = nullptr;  // ours or the caller's; null: closed
  std::string file_;
  Checkpointer checkpointer_;
  std::map<std::string, Prepared, std::less<>> prepared_;
};

}  // namespace dovetail::sqlite
