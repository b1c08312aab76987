-- The roles of the database, with the least rights: `plants_owner` makes the tables by the migrations, `plants_service` reads
-- and adds plants. Run it in the database of the plants, as a superuser or as its owner with the right to create roles, before
-- the migrations; then give both a password. It can be run again. In PostgreSQL 15 and later.
begin;
set local client_min_messages = warning;
do $$
declare
  role text;
  mark constant text := 'Plant Store, made by roles.sql';
begin
  -- One at a time: two that change a role at once fail.
  perform pg_advisory_xact_lock(hashtext('roles'));
  foreach role in array array['plants_owner', 'plants_service'] loop
    if to_regrole(role) is null then
      execute format('create role %I login', role);
      execute format('comment on role %I is %L', role, mark);
    -- Roles belong to all databases of the server: another application may have made it.
    elsif shobj_description(to_regrole(role), 'pg_authid') is distinct from mark then
      raise 'the role % exists already, and was not made by this file', role
        using hint = format('If it is for the plants, run this first: comment on role %I is %L', role, mark);
    end if;
  end loop;
  -- A user that is not a superuser must be a member of a role to act for it.
  if not (select rolsuper from pg_roles where rolname = current_user) then
    execute format('grant plants_owner to %I', current_user);
  end if;
  execute format('revoke all on database %I from public', current_database());
  execute format('grant connect on database %I to plants_owner, plants_service', current_database());
end
$$;
revoke all on schema public from public;
grant usage, create on schema public to plants_owner;
grant usage on schema public to plants_service;
-- As node-pg-migrate makes it, but before the rights below count: the service may not touch it.
create table if not exists public.migrations (id serial primary key, name varchar(255) not null, run_on timestamp not null);
revoke all on public.migrations from plants_service;
-- Tables that another role made before there was an owner.
do $$
declare
  name text;
begin
  for name in
    select tablename from pg_tables
    where schemaname = 'public' and tablename in ('plants', 'migrations') and tableowner <> 'plants_owner'
  loop
    execute format('alter table public.%I owner to plants_owner', name);
  end loop;
end
$$;
alter default privileges for role plants_owner in schema public grant select, insert on tables to plants_service;
-- A table that exists already does not get the default rights.
do $$
begin
  if to_regclass('public.plants') is not null then
    revoke all on public.plants from plants_service;
    grant select, insert on public.plants to plants_service;
  end if;
end
$$;
commit;
