#!/bin/sh
# roles.sh [SUPERUSER [HOST FILE]]: sets the rights and the passwords of the database's roles, and what the file says of them.
# Without a host the superuser loses its password: it exists on the server's socket alone. It can be run again.
set -eu
# name ROLE: its name in the database. Stacks of earlier releases keep theirs (setup.sh).
name() { if [ -e "/run/secrets/$1-verifier" ]; then echo "$1"; else echo "plants_$1"; fi; }
owner=$(name owner) service=$(name service) exporter=plants_exporter
for role in "$owner" "$service" "$exporter"; do
  # PostgreSQL would turn an empty password into none.
  [ -s "/run/secrets/$role-verifier" ] || { echo "roles: setup has made no password for $role" >&2 && exit 1; }
done
rights=$(sed "s/plants_owner/$owner/g; s/plants_service/$service/g" /config/postgresql/roles.sql ${3:+"$3"})
attributes='login nosuperuser nocreatedb nocreaterole noreplication nobypassrls'
exec psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --username="${1:-plants}" ${2:+--host="$2"} --dbname=plants --file=- <<SQL
begin;
select pg_advisory_xact_lock(hashtext('roles')) \g /dev/null
-- This server is the stack's own: a release that did not mark its roles made them.
select format('comment on role %I is %L', rolname, 'Plant Store, made by roles.sql') from pg_roles
where rolname in ('$owner', '$service') and shobj_description(oid, 'pg_authid') is null \gexec
commit;
$rights
-- Not the passwords: the server's log may show them.
\set owner \`cat /run/secrets/$owner-verifier\`
\set service \`cat /run/secrets/$service-verifier\`
\set exporter \`cat /run/secrets/$exporter-verifier\`
begin;
select pg_advisory_xact_lock(hashtext('roles')) \g /dev/null
$([ -n "${2:-}" ] || echo 'alter role current_user password null;')
alter role $owner $attributes password :'owner';
alter role $service $attributes password :'service';
-- It reads statistics, and no table.
set local client_min_messages = warning;
select 'create role $exporter' where to_regrole('$exporter') is null \gexec
grant pg_monitor to $exporter;
alter role $exporter $attributes connection limit 5 password :'exporter';
commit;
SQL
