# The steps of .ci/run for the stacks in deploy/: the short form of their faults under load.

# Every stack builds the service's image.
run_stack() {
  choose_image NODE_IMAGE node:24-trixie-slim
  node "deploy/$1/faults.ts" --short
}

run_ha() { run_stack ha; }

run_pgbouncer() { run_stack pgbouncer; }

# Finds the image of Citus that compose.yaml names, here or in its registry.
find_citus() { has_image "${CITUS_IMAGE:-$(default_image CITUS_IMAGE deploy/citus/compose.yaml)}"; }

run_citus() { run_stack citus; }
