-- What the roles of a node need besides ops/postgresql/roles.sql. It can be run again.
-- The lock time-out in the service's statement holds on the coordinator; the rows are locked on the workers.
alter role plants_service set lock_timeout = '25ms';
-- What this node connects to the others with. Only superusers can read it. Sessions that are open go on.
\set owner `cat /run/secrets/owner-password`
\set service `cat /run/secrets/service-password`
begin;
delete from pg_dist_authinfo where rolename in ('plants_owner', 'plants_service');
insert into pg_dist_authinfo (nodeid, rolename, authinfo)
  values (0, 'plants_owner', 'password=' || :'owner'), (0, 'plants_service', 'password=' || :'service');
commit;
