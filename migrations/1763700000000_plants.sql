-- Up Migration
create table plants (
  id bigint primary key,
  name text not null,
  tag text,
  write_id uuid not null,
  created_at timestamptz not null default now()
);

-- Down Migration
drop table plants;
