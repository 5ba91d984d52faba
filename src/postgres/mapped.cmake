# Mapped tables, and what operators use.
target_sources(
  dovetail
  PRIVATE admin.cc
          admin_parked.cc
          admin_slots.cc
          doctor.cc
          doctor_inbox.cc
          doctor_mapping.cc
          doctor_queue.cc
          doctor_schema.cc
          doctor_server.cc
          doctor_wal.cc
          doctor_wal_proof.cc
          function_check.cc
          maintenance.cc
          maintenance_inbox.cc
          mapped_admin.cc
          mapped_catalog.cc
          mapped_event.cc
          mapped_publication.cc
          mapped_rows.cc
          mapped_source.cc
          mapped_sql.cc
          mapped_table.cc
          mapped_windows.cc
          outside.cc
          partitions.cc)
dovetail_server_test(
  dovetail_postgres_operator_test
  SERVERS
  postgres
  SOURCES
  admin_slots_test.cc
  admin_test.cc
  doctor_test.cc
  doctor_wal_test.cc
  function_check_test.cc
  maintenance_inbox_test.cc
  maintenance_test.cc
  mapped_catalog_test.cc
  mapped_log_test.cc
  mapped_publication_test.cc
  mapped_relay_test.cc
  mapped_rows_test.cc
  mapped_source_test.cc
  mapped_table_test.cc
  mapped_windows_test.cc
  outside_test.cc
  LIBS
  PkgConfig::LIBPQ
  Threads::Threads)
dovetail_also_on_new_postgres(dovetail_postgres_operator_test "MappedLog.*:MappedRows*")
if(DOVETAIL_TESTS)
  # Both start the standby, of which there is one.
  set_tests_properties(dovetail_postgres_test dovetail_postgres_operator_test PROPERTIES RESOURCE_LOCK standby)
endif()
