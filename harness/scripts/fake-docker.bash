#!/usr/bin/env bash
# Stands in for Docker, for the scripts of ops/: knows their commands, and keeps its state in $STATE. Each image is a file with its
# id; each stack a directory, with its plants a line each, its secrets, and a file for each replica. `serves` has the plants that
# it began to serve with. A dump ends with a line of its own. FAULT names what fails.
set -euo pipefail
declare -A said=()
read_settings() {
  local name value
  [[ ! -e .env ]] || while IFS='=' read -r name value || [[ -n $name ]]; do [[ -z $name ]] || said[$name]=$value; done <.env
  project=${COMPOSE_PROJECT_NAME:-${said[COMPOSE_PROJECT_NAME]:-plant-store}}
}
read_settings
if [[ "$1 ${2-}" == 'compose --project-directory' ]]; then
  cd "$3" && project=$5
  set -- compose "${@:6}"
fi
image=${PLANT_STORE_IMAGE:-${said[PLANT_STORE_IMAGE]:-$project-api}}
stack=$STATE/stacks/$project
replica() { echo "$STATE"/stacks/*/replicas/"$1"; }
file_of() { echo "$STATE/images/${1//\//%}"; }
case "$*" in
'compose config --help') echo --environment ;;
'compose config')
  printf '%s\n' "name: $project" services: '  api:' '    deploy:' "      replicas: ${REPLICAS:-${said[REPLICAS]:-2}}" "    image: $image"
  [[ -z ${PORT-} ]] || printf '      %s\n' 'host_ip: 127.0.0.1' "published: \"$PORT\""
  ;;
'compose config --environment') cat .env 2>/dev/null || true ;;
'ps --all --quiet --no-trunc --filter label=com.docker.compose.project='*) ls "$STATE/stacks/${6##*=}/replicas" ;;
'compose ps --all --quiet api') ls "$stack/replicas" 2>/dev/null || true ;;
'compose ps --quiet'*) ls "$stack/replicas" 2>/dev/null || true ;;
'compose build')
  [[ $FAULT != build ]] || exit 17
  echo "sha256:0123456789abcdef" >"$(file_of "$image")"
  ;;
'pull '*)
  [[ $FAULT != registry ]] || { echo 'dial tcp: connection refused' >&2 && exit 1; }
  [[ $2 == registry/* ]] || { echo 'denied' >&2 && exit 1; }
  echo sha256:new >"$(file_of "$2")"
  echo sha256:new >"$(file_of "${2%:*}@sha256:new")"
  echo Digest: sha256:new
  ;;
'tag sha256:'*) echo "$2" >"$(file_of "$3")" ;;
'tag '*) cp "$(file_of "$2")" "$(file_of "$3")" ;;
'image rm '*) rm "$(file_of "$3")" ;;
'image inspect --format {{.Id}} '* | 'image inspect '[!-]*) cat "$(file_of "${@: -1}")" ;;
'image inspect --format {{range .RepoDigests}}'*)
  id=$(cat "$(file_of "$5")") || exit 1
  [[ $5 != registry/* ]] || echo "${5%[:@]*}@$id"
  ;;
'compose run --rm -T --no-deps --quiet-pull api node '*) [[ $image != refused ]] || echo 'WRITE_LANES must be an integer' ;;
'compose run --rm -T --no-deps migrate') ;;
'compose run --rm -T --no-deps setup') echo "${REPLICAS:-${said[REPLICAS]:-2}}" >"$stack/wanted" ;;
'compose up --detach --no-deps --no-recreate --scale api='*' api')
  for ((wanted = ${7#api=}; $(ls "$stack/replicas" | wc -l) < wanted; )); do
    last=$(($(<"$STATE/last") + 1))
    echo $last >"$STATE/last"
    echo "$image starting" >"$stack/replicas/c$last"
  done
  ;;
'inspect --format {{.State.Status}}'*)
  read -r of state <"$(replica "$4")"
  if [[ $of == broken ]]; then echo 'restarting unhealthy 1'; else echo "running $state 0"; fi
  echo "$of healthy" >"$(replica "$4")"
  ;;
'inspect --format {{.Config.Image}} '*) cut -d ' ' -f 1 "$(replica "$4")" ;;
'exec '*) [[ $(<"$(replica "$2")") != failing* ]] || { echo 'failures_total{name="Internal"} 1' && exit 1; } ;;
'logs '*) echo "a line of $(<"$(replica "$4")")" ;;
'kill '*) ;;
'stop '*) echo 'some exited' >"$(replica "$2")" ;;
'rm --force --volumes '*) rm "$STATE/trial-$4" ;;
'rm --force '*) rm "$(replica "$3")" ;;
'volume rm '*_data) rm -f "$STATE/stacks/${3%_data}"/{plants,serves} ;;
'compose run --rm -T --no-deps --name '*' backup night')
  [[ ! -e $STATE/trial-$7 ]] || { echo 'the name is already in use' >&2 && exit 1; }
  cat >"$STATE/trial-$7"
  [[ $FAULT != less ]] || { echo 'backup: 1 of 2 plants were restored' >&2 && exit 1; }
  echo "$7" >"$stack/backup.prom"
  ;;
*'--entrypoint flock setup /secrets/tokens/.lock tar -C /secrets -c api certificate db migrate tokens')
  parts='api certificate db migrate tokens'
  [[ $FAULT != secrets ]] || parts='api certificate db migrate'
  tar -C "$stack/secrets" -c $parts
  ;;
'compose exec -T db pg_dump '*)
  [[ $FAULT != less ]] || { head -n 1 "$stack/plants" && echo end && exit; }
  cat "$stack/plants"
  [[ $FAULT == dump ]] || echo end
  ;;
*' pg_restore --file=/dev/null' | *'--entrypoint pg_restore roles --file=/dev/null') [[ $(tail -n 1) == end ]] ;;
*'--entrypoint find db /var/lib/postgresql '*) mkdir -p "$stack" && find "$stack" -name plants ;;
'compose run --rm -T --no-deps setup --restore')
  mkdir -p "$stack/secrets"
  [[ -e $stack/secrets/api/tokens ]] || { tar -C "$stack/secrets" -x && echo alice; }
  ;;
*' --entrypoint sh db -s restore'*)
  [[ "$*" =~ --volume=([^:]*): ]]
  mkdir -p "$stack" && cp "${BASH_REMATCH[1]}/stream" "$stack/recovered"
  ;;
*'--entrypoint sh db -c '*) mv "$stack/recovered" "$stack/plants" ;;
'compose rm --stop --force api') rm -rf "$stack/replicas" ;;
'compose rm --stop --force db node-exporter') ;;
'compose up --detach --wait db') : >"$stack/plants" ;;
'compose run --rm -T roles') ;;
'compose exec -T db pg_restore '*) sed '$d' >"$stack/plants" ;;
'compose up --detach --wait') cp "$stack/plants" "$stack/serves" ;;
*'--entrypoint sh setup -c cat >/pages/.backup && mv /pages/.backup /pages/backup.prom') cat >"$stack/backup.prom" ;;
*) echo "docker: unknown: $*" >&2 && exit 64 ;;
esac
healthy=0
for file in "$STATE"/stacks/plant-store/replicas/*; do [[ ! -e $file || $(<"$file") != *healthy ]] || healthy=$((healthy + 1)); done
((healthy >= 2)) || echo "$*" >>"$STATE/short"
