#!/bin/sh
# Brings the roles of the database to what they are to be, each time: the owner, who makes the tables and may do nothing
# else, and the service, who may use them and not change them, and not the record of the migrations. The superuser has no password: it exists on the socket alone.
set -eu
exec psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --single-transaction --username=plants --dbname=plants --file=- <<'SQL'
set client_min_messages = warning;
-- One at a time: two that change a role at once fail.
select pg_advisory_xact_lock(hashtext('roles')) \g /dev/null
-- Not the passwords, which the server's log may show.
\set owner `cat /run/secrets/owner-verifier`
\set service `cat /run/secrets/service-verifier`
select format('create role %I', name) from unnest(array['owner', 'service']) as name
where not exists (select from pg_roles where rolname = name) \gexec
alter role plants password null;
alter role owner login nosuperuser nocreatedb nocreaterole noreplication nobypassrls password :'owner';
alter role service login nosuperuser nocreatedb nocreaterole noreplication nobypassrls password :'service';
revoke all on database plants from public;
grant connect on database plants to owner, service;
revoke all on schema public from public;
grant usage, create on schema public to owner;
grant usage on schema public to service;
-- As node-pg-migrate makes it, but not by the owner, whose tables the service may write.
create table if not exists public.migrations (id serial primary key, name varchar(255) not null, run_on timestamp not null);
revoke all on public.migrations from service;
-- Tables that the superuser made before there was an owner.
select format('alter table public.%I owner to owner', tablename) from pg_tables
where schemaname = 'public' and tableowner <> 'owner' \gexec
alter default privileges for role owner in schema public grant select, insert on tables to service;
SQL
