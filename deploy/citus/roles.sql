-- What the roles of a node need besides ops/postgresql/roles.sql. It can be run again.
-- The lock time-out in the service's statement holds on the coordinator; the rows are locked on the workers.
alter role plants_service set lock_timeout = '25ms';
