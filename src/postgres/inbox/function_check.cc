#include "postgres/inbox/function_check.h"

#include <string>

namespace dovetail::postgres {

namespace {

// One row per function that the name finds; fitting ones come first.
constexpr std::string_view kFunctions =
    "SELECT coalesce(p.pronargs >= 1 AND p.pronargs - p.pronargdefaults <= 1 AND p.proargtypes[0] "
    "= pg_catalog.to_regtype($3), false) AS fits, p.prokind = 'f', "
    "pg_catalog.has_schema_privilege(n.oid, 'USAGE'), "
    "pg_catalog.has_function_privilege(p.oid, 'EXECUTE'), "
    "pg_catalog.format('%I.%I(%s)', n.nspname, p.proname, "
    "pg_catalog.pg_get_function_identity_arguments(p.oid)), current_user::text, "
    "coalesce(p.proargtypes[0] = pg_catalog.to_regtype($4), false) AS other "
    "FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace "
    "WHERE p.proname = $2 AND CASE WHEN $1 = '' THEN pg_catalog.pg_function_is_visible(p.oid) "
    "ELSE n.nspname = $1 END ORDER BY fits DESC, other DESC LIMIT 1";

constexpr std::string_view kOne = "dovetail.event";
constexpr std::string_view kMany = "dovetail.event[]";

}  // namespace

Status check_function(Connection& connection, std::string_view function, bool batch) {
  const std::size_t dot = function.find('.');
  const std::string_view schema =
      dot == std::string_view::npos ? std::string_view{} : function.substr(0, dot);
  const std::string_view name = dot == std::string_view::npos ? function : function.substr(dot + 1);
  const std::string wanted(batch ? kMany : kOne);
  const Result<Rows> rows = connection.query(
      kFunctions, Params().text(schema).text(name).text(wanted).text(batch ? kOne : kMany));
  if (!rows) return fail(rows.error());
  if (rows->empty()) {
    return fail(Errc::rejected,
                "the consumer's database has no function " + std::string(function) +
                    "; check the name" + (schema.empty() ? " and the search_path" : "") +
                    ", or create it: CREATE FUNCTION " + std::string(function) + "(" +
                    (batch ? "events " : "event ") + wanted + ") RETURNS void ...");
  }
  const std::string found(rows->text(0, 4));
  if (!rows->boolean(0, 0)) {
    return fail(
        Errc::rejected,
        found + " does not fit: a handler takes one " + wanted +
            (rows->boolean(0, 6) ? std::string("; check \"batch\", which selects a function "
                                               "of many events")
                                 : "; check its arguments"));
  }
  if (!rows->boolean(0, 1)) {
    return fail(Errc::rejected,
                found +
                    " is a procedure or an aggregate, but a handler must be a function, which "
                    "cannot end the transaction; create it with CREATE FUNCTION");
  }
  const std::string role(rows->text(0, 5));
  if (!rows->boolean(0, 2) || !rows->boolean(0, 3)) {
    const bool schema_is_closed = !rows->boolean(0, 2);
    return fail(Errc::rejected, "the role " + role + " may not call " + found + "; GRANT " +
                                    (schema_is_closed ? "USAGE on its schema" : "EXECUTE on it") +
                                    " to that role");
  }
  return {};
}

}  // namespace dovetail::postgres
