# Reading the server's log.
dovetail_server_test(
  dovetail_postgres_stream_test
  SERVERS
  postgres
  pgbouncer
  SOURCES
  replication_test.cc
  wal_buffer_test.cc
  wal_receiver_test.cc
  wal_server_test.cc
  wal_slot_test.cc
  wal_stream_test.cc
  LIBS
  PkgConfig::LIBPQ
  Threads::Threads)
dovetail_also_on_new_postgres(dovetail_postgres_stream_test "*:-*Pooler*:WalServer*:WalBuffer*:WalSlotName*")
