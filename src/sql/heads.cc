#include "sql/heads.h"

#include <vector>

namespace dovetail {

Status refresh_heads(SqlSession& session, const HeadStatements& sql, const std::string& relay,
                     const std::set<OrderKey>& keys) {
  if (sql.first.empty()) return {};
  std::vector<SqlParams> each;
  for (const OrderKey& key : keys)
    if (!key.second.empty())
      each.push_back(SqlParams().text(relay).text(key.first).text(key.second));
  if (each.empty()) return {};
  if (!sql.lock.empty()) {
    const Result<SqlRows> locked = session.run(sql.lock, SqlParams().text(relay));
    if (!locked) return fail(locked.error());
  }
  const Result<std::vector<SqlRows>> first = session.run_each(sql.first, each);
  if (!first) return fail(first.error());
  std::vector<SqlParams> stale;
  std::vector<SqlParams> marked;
  for (std::size_t i = 0; i < each.size(); ++i) {
    const SqlRows& row = (*first)[i];
    if (row.empty() || row.boolean(0, 1)) continue;
    stale.push_back(each[i]);
    marked.push_back(SqlParams().integer(row.integer(0, 0)));
  }
  if (stale.empty()) return {};
  const Result<std::vector<SqlRows>> cleared = session.run_each(sql.clear, stale);
  if (!cleared) return fail(cleared.error());
  const Result<std::vector<SqlRows>> set = session.run_each(sql.set, marked);
  if (!set) return fail(set.error());
  return {};
}

}  // namespace dovetail
