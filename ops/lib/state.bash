# Sourced by the scripts of ops/: takes them to the checkout. Its .env has what is in effect: image, image before, replicas.
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

say() { printf "${0##*/}: %s\n" "$@" >&2; }
refuse() { say "$@" && exit 1; }

((BASH_VERSINFO[0] >= 5)) && realpath --version 2>/dev/null | grep GNU >/dev/null && command -v flock >/dev/null ||
  refuse 'bash 5, GNU coreutils and flock are needed'
shopt -s inherit_errexit # a build that fails in $(…) ends the script
docker compose config --help 2>/dev/null | grep -e --environment >/dev/null || refuse 'Docker Compose 2.28 or later is needed'

# lock FILE: until the script and what it has started have ended.
lock() { exec 9<"$1" && flock --nonblock 9 || refuse 'another one runs'; }

# read_config [COMMAND...]: the project's name, image and number of replicas as Compose reads them; COMMAND runs it.
read_config() {
  local config
  config=$("$@" docker compose config)
  project=$(sed -n 's/^name: //p' <<<"$config")
  image=$(sed -n '/^  api:$/,/^  [^ ]/s/^ *image: //p' <<<"$config")
  count=$(sed -n '/^  api:$/,/^  [^ ]/s/^ *replicas: //p' <<<"$config")
}

# For scripts that change what is in effect: one of them at a time, and nothing may be exported that .env does not say.
begin() {
  local own=(env -u COMPOSE_PROJECT_NAME -u PLANT_STORE_IMAGE -u REPLICAS) pair name value
  lock ops
  [[ -w . ]] || refuse "$PWD cannot be written, and .env there has what is in effect"
  read_config "${own[@]}"
  previous=$("${own[@]}" docker compose config --environment | sed -n 's/^PLANT_STORE_PREVIOUS_IMAGE=//p')
  for pair in "COMPOSE_PROJECT_NAME=$project" "PLANT_STORE_IMAGE=$image" "REPLICAS=$count"; do
    name=${pair%%=*} value=${pair#*=}
    [[ ! -v $name || ${!name} == "$value" ]] ||
      refuse "$name is exported as '${!name}', but the default or .env says '$value': unset the one or change the other"
  done
}

# record NAME=VALUE...: writes these lines of .env, and leaves the others as they are.
record() {
  local file line pattern
  file=$(realpath -- .env)
  if [[ -e $file ]]; then cp -p -- "$file" "$file.new"; else : >"$file.new"; fi
  for line; do
    pattern="^[[:space:]]*(export[[:space:]]+)?${line%%=*}[[:space:]]*="
    if grep -Eq "$pattern" "$file.new"; then sed -Ei "s|$pattern.*|$line|" "$file.new" && continue; fi
    [[ -z $(tail -c 1 "$file.new") ]] || echo >>"$file.new" # its last line has no end
    echo "$line" >>"$file.new"
  done
  mv -- "$file.new" "$file"
}
