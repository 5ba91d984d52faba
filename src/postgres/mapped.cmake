target_sources(dovetail PRIVATE mapped_catalog.cc mapped_source.cc mapped_sql.cc mapped_table.cc)
dovetail_server_test(
  dovetail_postgres_operator_test
  SERVERS
  postgres
  SOURCES
  mapped_source_test.cc
  mapped_table_test.cc
  LIBS
  PkgConfig::LIBPQ
  Threads::Threads)
