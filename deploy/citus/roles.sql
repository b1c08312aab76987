-- Makes the roles of a node. It can be run again.
\set ON_ERROR_STOP on
set citus.enable_ddl_propagation = off;
\i /config/postgresql/roles.sql
\set owner `cat /run/secrets/owner-verifier`
\set service `cat /run/secrets/service-verifier`
alter role owner password :'owner';
alter role service password :'service';
-- The lock time-out in the service's statement holds on the coordinator; the rows are locked on the workers.
alter role service set lock_timeout = '25ms';
