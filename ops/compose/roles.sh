#!/bin/sh
# roles.sh [SUPERUSER [HOST]]: sets the rights of the database's roles, and the passwords that setup.sh has made. It can be run
# again. Without a host, the superuser loses its password: it exists on the server's socket alone.
set -eu
# The server's log shows no statement with a password, even if one fails.
export PGOPTIONS="${PGOPTIONS:-} -c log_statement=none -c log_min_error_statement=panic -c client_min_messages=warning"
psql="psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --username=${1:-plants} ${2:+--host=$2} --dbname=plants"
$psql --file=/ops/postgresql/roles.sql
$psql <<SQL
\\set owner \`cat /run/secrets/owner-password\`
\\set service \`cat /run/secrets/service-password\`
\\set exporter \`cat /run/secrets/exporter-password\`
begin;
$([ -n "${2:-}" ] || echo 'alter role current_user password null;')
alter role plants_owner password :'owner';
alter role plants_service password :'service';
-- It reads statistics, and no table.
select 'create role plants_exporter login' where to_regrole('plants_exporter') is null \\gexec
grant pg_monitor to plants_exporter;
alter role plants_exporter connection limit 5 password :'exporter';
commit;
SQL
