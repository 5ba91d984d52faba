// A connection to a SQLite file, as the rules that every database shares use it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sql/session.h"
#include "sqlite/connection/database.h"

namespace dovetail::sqlite {

// Beside their parameters $1, $2, ... statements may name the machine's clocks: `:now` is the wall
// clock, `:boot_time` the clock that never steps, and `:boot` the run of the machine that it counts
// in. Statements are prepared once for each connection.
class SqliteSession : public SqlSession {
 public:
  // Opens the file with connect(). `clock` outlives this.
  SqliteSession(std::string path, Durability durability, Clock& clock, std::string boot);
  // On a connection of somebody else's, such as the application's own, which outlives this.
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
  bool in_transaction() const override {
    return connection_ != nullptr && sqlite::in_transaction(connection_);
  }

 protected:
  // The file was opened; what its users need is still to be made ready.
  virtual Status opened(Database&) { return {}; }

 private:
  struct Prepared {
    Statement statement{};
    int now = 0;  // which parameter it is; 0: it is not named
    int boot_time = 0;
    int boot = 0;
    std::vector<int> numbered{};
  };
  Result<Prepared*> prepare(std::string_view sql);
  void bind(Prepared& prepared, const SqlParams& params);
  Result<SqlRows> run(Prepared& prepared, const SqlParams& params);

  std::string path_;
  Durability durability_ = Durability::full;
  Clock& clock_;
  std::string boot_;
  Database database_;
  sqlite3* connection_ = nullptr;  // ours or somebody else's; null: it is closed
  std::string file_;
  Checkpointer checkpointer_;
  std::map<std::string, Prepared, std::less<>> prepared_;
};

}  // namespace dovetail::sqlite
