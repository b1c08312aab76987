#!/bin/sh
# roles.sh [SUPERUSER]: sets the rights and the passwords of the database's roles. It can be run again.
# The superuser has none: it exists on the server's socket alone.
set -eu
for role in owner service; do
  # PostgreSQL would turn an empty password into none.
  [ -s "/run/secrets/$role-verifier" ] || { echo "roles: setup has made no password for $role" >&2 && exit 1; }
done
exec psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --username="${1:-plants}" --dbname=plants --file=/config/postgresql/roles.sql --file=- <<'SQL'
-- Not the passwords: the server's log may show them.
\set owner `cat /run/secrets/owner-verifier`
\set service `cat /run/secrets/service-verifier`
begin;
select pg_advisory_xact_lock(hashtext('roles')) \g /dev/null
alter role current_user password null;
alter role owner login nosuperuser nocreatedb nocreaterole noreplication nobypassrls password :'owner';
alter role service login nosuperuser nocreatedb nocreaterole noreplication nobypassrls password :'service';
commit;
SQL
