-- The widest range that pgbench's random() takes.
\set id random(-4611686018427387904, 4611686018427387902)
insert into plants (id, name, tag) values (:id, 'Monstera', 'tropical') on conflict (id) do nothing;
