#!/bin/sh
# Runs once on each node, when its database is made: the user of the service, and the passwords by which the nodes
# connect to one another, as whoever runs the statement.
set -eu
psql --set=ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
\getenv password SERVICE_PASSWORD
create role service login password :'password';
-- The lock time-out in the service's statement holds on the coordinator; the rows are locked on the workers.
alter role service set lock_timeout = '25ms';
alter default privileges in schema public grant select, insert, update on tables to service;
SQL
umask 077
printf '*:*:*:%s:%s\n' "$POSTGRES_USER" "$POSTGRES_PASSWORD" service "$SERVICE_PASSWORD" >"$PGPASSFILE"
