# The steps of .ci/run for the stacks in deploy/: the short form of their faults under load.

# Every stack builds the service's image.
run_stack() {
  choose_image NODE_IMAGE node:24-trixie-slim
  node "deploy/$1/faults.ts" --short
}

run_ha() { run_stack ha; }

run_pgbouncer() { run_stack pgbouncer; }

# Finds the image of Citus that compose.yaml names, here or in its registry.
find_citus() {
  local image
  image=${CITUS_IMAGE:-$(sed -En 's/.*\$\{CITUS_IMAGE:-([^}]+)\}.*/\1/p' deploy/citus/compose.yaml)}
  docker image inspect "$image" || docker pull --quiet "$image"
} >/dev/null 2>&1

run_citus() { run_stack citus; }
