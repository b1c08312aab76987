-- As in servers/repositories.ts; the widest range that pgbench's random() takes.
\set id random(-4611686018427387904, 4611686018427387902)
insert into plants (id, name, tag, write_id)
values (:id, :name, :tag, gen_random_uuid())
on conflict (id) do nothing;
