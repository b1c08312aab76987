#!/bin/sh
# Runs once, when the database is made: the user of the service, who may use the tables that the owner's migrations
# make, and may not change them.
set -eu
password=$(cat /run/secrets/service-password)
psql --set=ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "${POSTGRES_DB:-$POSTGRES_USER}" <<SQL
create role service login password '$password';
alter default privileges in schema public grant select, insert, update on tables to service;
SQL
