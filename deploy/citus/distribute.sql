-- The optional step after the migrations: makes the workers known and spreads the table over them by id, its only key.
-- A second run changes nothing.
\set ON_ERROR_STOP on
select citus_set_coordinator_host('db');
select citus_add_node('worker1', 5432);
select citus_add_node('worker2', 5432);
select count(*) = 0 as is_local from pg_dist_partition where logicalrelid = 'plants'::regclass \gset
\if :is_local
  select create_distributed_table('plants', 'id', shard_count => :shards);
  -- The earlier rows of the table were copied. Their originals would stay on the coordinator, unseen.
  select truncate_local_data_after_distributing_table('plants');
\else
  \echo plants is distributed already
\endif
