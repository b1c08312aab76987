# The steps of .ci/run for the stacks in deploy/: the short form of their faults under load.

run_ha() { node deploy/ha/faults.ts --short; }

run_pgbouncer() { node deploy/pgbouncer/faults.ts --short; }
