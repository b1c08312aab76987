# Sourced by the scripts of ops/ that start and end replicas.

# Compose lists one-off containers, too.
replicas() {
  docker ps --all --quiet --no-trunc --filter "label=com.docker.compose.project=$project" \
    --filter label=com.docker.compose.service=api --filter label=com.docker.compose.oneoff=False
}

# find_old: sets `old`, the replicas that are there before others are started.
find_old() {
  local all
  all=$(replicas)
  read -r -d '' -a old <<<"$all" || true
  ((${#old[@]} > 0)) || refuse 'no replica runs: docker compose up --wait starts the stack'
}

# start_replicas COUNT: so many beside the old ones; returns when they are ready. Until keep_replicas, the script's end takes them back.
start_replicas() {
  local id all
  trap take_back EXIT
  trap 'exit 1' HUP INT TERM
  # Plain `up` would recreate all of them at once, and `--wait` would wait for old ones that are broken.
  docker compose up --detach --no-deps --no-recreate --scale "api=$((${#old[@]} + $1))" api
  all=$(replicas)
  for id in $all; do
    is_old "$id" || until is_ready "$id"; do sleep 1; done
  done
}

is_old() { [[ " ${old[*]} " == *" $1 "* ]]; }

# is_ready ID: 0 when it is healthy, 1 while it may become so; ends the script when it cannot.
is_ready() {
  local state
  state=$(docker inspect --format '{{.State.Status}} {{.State.Health.Status}} {{.RestartCount}}' "$1") || state=gone
  case $state in
  'running healthy '*) return 0 ;;
  'running starting 0') return 1 ;;
  *) give_up "$1" "a new replica did not become ready ($state)" ;;
  esac
}

# give_up ID WHY: shows the end of the replica's log, without what went well: it goes with the replica.
give_up() {
  docker logs --tail 1000 "$1" 2>&1 | grep -v '"level":30' | tail -n 20 >&2 || true
  refuse "$2; the old ones serve on"
}

# end ID...: drains the replicas one by one (stop_grace_period), and removes them.
end() {
  local id
  for id; do
    docker stop "$id" >/dev/null
    docker rm --force "$id" >/dev/null
  done
}

# take_back: ends the new ones. One that is ready serves already: it gets time to drain.
take_back() {
  trap '' HUP INT TERM
  for id in $(replicas); do is_old "$id" || end "$id"; done
}

keep_replicas() { trap - EXIT HUP INT TERM; }
