# The steps of .ci/run that are more than one command; $scratch is its directory for what they leave behind.

# keep [FILE]: prints what comes in, and writes it to the file. It outlives signals: a command that one ends prints while it
# cleans up. Errors come in, too: tee fails where Node has made the pipe that it prints to non-blocking (see step).
keep() {
  trap '' INT TERM
  exec tee "$@"
}

# run_tests embedded|Testcontainers: the tests, and that they ran on this PostgreSQL.
run_tests() {
  export TESTCONTAINERS_RYUK_DISABLED=true TESTCONTAINERS_HOST_OVERRIDE=127.0.0.1
  npm test -- --reporter=tap |& keep "$scratch/$1.tap" ||
    { printf 'npm test and tee: statuses %s\n' "${PIPESTATUS[*]}" && return 1; }
  grep -q "^PostgreSQL for the tests: $1" "$scratch/$1.tap" ||
    { printf 'the tests did not run on PostgreSQL by %s\n' "$1" && return 1; }
}

# run_script NAME: npm's script test:NAME.
run_script() { npm run "test:$1" -- --reporter=tap |& keep "$scratch/$1.tap"; }

# find_debian COMMAND: Debian's package of that name, where it can be installed.
find_debian() {
  export PATH=$PATH:/usr/sbin
  ! command -v "$1" >/dev/null || return 0
  ((EUID == 0)) && command -v apt-get >/dev/null || return 1
  (
    flock 9 # steps in the background install, too
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1"
  ) 9>"$scratch/apt"
} >/dev/null 2>&1

# Downloads what later steps need while earlier ones mostly wait. A failed download is noticed by the later step.
fetch_ahead() {
  set +e
  find_chromium
  find_haproxy
  find_nginx
  find_others
  find_pgbouncer
  find_amtool
  true
}

find_haproxy() { find_debian haproxy; }

find_nginx() { find_debian nginx; }

# Whose tests are skipped where they cannot be had.
find_others() {
  find_debian caddy
  find_debian apache2
  command -v varnishd >/dev/null || find_debian varnish
}

find_pgbouncer() { find_debian pgbouncer; }

find_amtool() { command -v amtool >/dev/null || find_debian prometheus-alertmanager; }

run_amtool() {
  cd ops/alertmanager
  amtool check-config alertmanager.yml
  route() { amtool config routes test --config.file=alertmanager.yml "--verify.receivers=$@"; }
  route pager severity=critical environment=production
  route pager severity=critical
  route team severity=critical environment=staging
  route team severity=warning environment=production
  route watchdog alertname=PlantStoreWatchdog severity=none
}

# The browser that CHROMIUM names, or Debian's.
find_chromium() {
  [[ -n ${CHROMIUM:-} ]] || find_debian chromium && export CHROMIUM=${CHROMIUM:-$(command -v chromium)}
}

# The curl line that `npm run dev` prints works as it stands, and Ctrl-C leaves nothing behind.
run_dev() {
  local log=$scratch/log curl database metrics answer
  set -m # a process group of its own, so that all of it gets the signal, as from a terminal
  PORT=0 npm run dev >"$log" 2>&1 &
  group=$!
  set +m
  trap 'end_group INT "$group"; cat "$scratch/log"' EXIT
  retry 300 grep -q '^  curl ' "$log"
  retry 60 grep -q 'Metrics at http' "$log"
  metrics=$(sed -En 's|.*Metrics at (http://[^ ]+/metrics).*|\1|p' "$log")
  curl=$(grep '^  curl ' "$log")
  database=$(awk '$1 == "database" { print $2 }' "$log")
  answer=$(eval "$curl")
  printf '%s\n' "$answer"
  [[ $answer == 'HTTP/1.1 200 '* && $answer == *$'\n{"name":"Monstera","tag":"tropical"}' ]]
  curl -sS "$metrics" -o "$scratch/metrics"
  [[ $curl =~ \"id\":([0-9]+) ]]
  [[ $(find_plant "$database" "${BASH_REMATCH[1]}") == '[{"name":"Monstera","tag":"tropical"}]' ]]
  end_group INT "$group"
  refuses_connections "$curl"
  refuses_connections "$database"
}

find_plant() {
  node --input-type=module --eval '
    import pg from "pg"
    const [url, id] = process.argv.slice(1)
    const client = new pg.Client(url)
    await client.connect()
    const { rows } = await client.query("select name, tag from plants where id = $1", [id])
    await client.end()
    console.log(JSON.stringify(rows))' "$@"
}

# The text holds the address, 127.0.0.1:PORT.
refuses_connections() {
  [[ $1 =~ 127\.0\.0\.1:([0-9]+) ]]
  if (: <"/dev/tcp/127.0.0.1/${BASH_REMATCH[1]}") 2>/dev/null; then return 1; fi
}

# A report, good or bad, has a summary; an error of the registry has none.
answers_audit() { [[ $(npm audit --json 2>/dev/null || true) == *'"vulnerabilities"'* ]]; }

run_container() {
  choose_images
  choose_image PROMETHEUS_IMAGE prom/prometheus:v3.5.3
  find_debian restic || true # the copy of a backup elsewhere is skipped without it
  run_script container
}

# run_stack NAME: a stack of deploy/, under the short form of its faults; what that leaves out was not run.
run_stack() {
  choose_images
  node "test/stacks/$1/faults.ts" --short |& keep "$scratch/$1.faults"
  sed -En "s|^left out: (.*)|missed deploy/$1, \1: only without --short|p" "$scratch/$1.faults" >>"$scratch/steps"
}

# Finds the image of Citus that compose.yaml names, here or in its registry; else another release that is here, or that
# the engine's folder builds from a copy of Citus' source.
find_citus() {
  has_docker || return 1
  ! has_image "${CITUS_IMAGE:-$(default_image CITUS_IMAGE deploy/citus/compose.yaml)}" || return 0
  [[ ! -x $lab/citus || -z ${CITUS_SOURCE:-} ]] || "$lab/citus" "$CITUS_SOURCE" >"$scratch/citus" 2>&1 ||
    tail -n 20 "$scratch/citus"
  CITUS_IMAGE=$(docker images --format '{{.Repository}}:{{.Tag}}' citusdata/citus | head -n 1)
  [[ -n $CITUS_IMAGE ]] && export CITUS_IMAGE
}

choose_images() {
  choose_image NODE_IMAGE node:24-trixie-slim
  choose_image POSTGRES_IMAGE postgres:18
  choose_image HAPROXY_IMAGE haproxy:3.2
}

# choose_image VARIABLE IMAGE: docker-compose.yml's exact release, or this image where that cannot be had.
choose_image() {
  has_image "$(default_image "$1" docker-compose.yml)" || export "$1=$2"
}

# default_image VARIABLE FILE: the image that a Compose file takes where the variable is not set.
default_image() { sed -En "s/.*\\$\{$1:-([^}]+)\}.*/\1/p" "$2" | head -n 1; }

# has_image IMAGE: it is here, or could be pulled.
has_image() { docker image inspect "$1" || docker pull --quiet "$1"; } >/dev/null 2>&1

# Finds Prometheus and promtool on the PATH, in the image of docker-compose.yml, or in Debian's package; installs nothing.
find_promtool() {
  PATH=$PATH:$scratch/prometheus/usr/bin
  has_prometheus || copy_prometheus || (cd "$scratch" && download_prometheus)
} >/dev/null 2>&1

has_prometheus() { command -v promtool && command -v prometheus; }

copy_prometheus() {
  local name container image=${PROMETHEUS_IMAGE:-$(default_image PROMETHEUS_IMAGE docker-compose.yml)}
  has_docker && has_image "$image" && container=$(docker create "$image") || return 1
  mkdir -p "$scratch/prometheus/usr/bin"
  for name in promtool prometheus; do
    docker cp "$container:/bin/$name" "$scratch/prometheus/usr/bin"
  done
  docker rm "$container"
  has_prometheus
}

download_prometheus() {
  apt-get download prometheus || { apt-get update && apt-get download prometheus; } || return 1
  dpkg-deb --extract prometheus_*.deb prometheus
}

# The metrics page is the one of `npm run dev`.
run_promtool() {
  promtool check metrics <"$scratch/metrics"
  promtool check config ops/prometheus/prometheus.yml # and the rules that it names
  run_script alerts
}

# end_group SIGNAL PID [SECONDS]: ends a process group, which takes down what it has started; by SIGKILL after this time.
end_group() {
  kill "-$1" -- "-$2" 2>/dev/null || return 0
  retry "${3:-120}" eval "! kill -0 -- -$2 2>/dev/null" || kill -KILL -- "-$2"
}

# retry SECONDS COMMAND...
retry() {
  local end=$((SECONDS + $1))
  until "${@:2}"; do
    ((SECONDS < end)) || return 1
    sleep 0.2
  done
}
