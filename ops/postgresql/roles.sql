-- The roles of the database, with the least rights: `owner` makes the tables by the migrations, `service` reads and adds
-- plants. Run it in the database of the plants, as a superuser or as its owner with the right to create roles, before the
-- migrations; then give both a password. It can be run again. In PostgreSQL 15 and later.
begin;
set local client_min_messages = warning;
do $$
declare
  role text;
begin
  -- One at a time: two that change a role at once fail.
  perform pg_advisory_xact_lock(hashtext('roles'));
  foreach role in array array['owner', 'service'] loop
    if not exists (select from pg_roles where rolname = role) then
      execute format('create role %I login', role);
    end if;
  end loop;
  -- A user that is not a superuser must be a member of a role to act for it.
  if not (select rolsuper from pg_roles where rolname = current_user) then
    execute format('grant owner to %I', current_user);
  end if;
  execute format('revoke all on database %I from public', current_database());
  execute format('grant connect on database %I to owner, service', current_database());
end
$$;
revoke all on schema public from public;
grant usage, create on schema public to owner;
grant usage on schema public to service;
-- As node-pg-migrate makes it, but before the rights below count: the service may not touch it.
create table if not exists public.migrations (id serial primary key, name varchar(255) not null, run_on timestamp not null);
revoke all on public.migrations from service;
-- Tables that another role made before there was an owner.
do $$
declare
  name text;
begin
  for name in
    select tablename from pg_tables
    where schemaname = 'public' and tablename in ('plants', 'migrations') and tableowner <> 'owner'
  loop
    execute format('alter table public.%I owner to owner', name);
  end loop;
end
$$;
alter default privileges for role owner in schema public grant select, insert on tables to service;
-- A table that exists already does not get the default rights.
do $$
begin
  if to_regclass('public.plants') is not null then
    revoke all on public.plants from service;
    grant select, insert on public.plants to service;
  end if;
end
$$;
commit;
