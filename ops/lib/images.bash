# Sourced by the scripts of ops/ that get an image. No later pull or build gives its exact name to another image.

# name_exactly IMAGE: prints its name by digest where it was pulled, else the name that it has.
name_exactly() {
  { docker image inspect --format '{{range .RepoDigests}}{{println .}}{{end}}' "$1" 2>/dev/null || true; } |
    awk -v name="$1" 'NF && !found++ { name = $0 } END { print name }'
}

# get_image [IMAGE]: pulls it, or builds the sources, and prints its exact name. A tag that exists stays with its image.
get_image() {
  local id exact log digest name
  if [[ -z ${1-} ]]; then build_image; return; fi
  id=$(docker image inspect --format '{{.Id}}' "$1" 2>/dev/null) || id=
  exact=$(name_exactly "$1")
  if [[ -n $id && ($1 == *@* || $exact == "$1") ]]; then
    echo "$1" # it cannot be newer elsewhere: it was built or loaded here, or is named by its digest
  elif log=$(docker pull "$1" 2>&1); then
    digest=$(sed -n 's/^Digest: //p' <<<"$log")
    name=${1%@*}
    [[ ${name##*/} != *:* ]] || name=${name%:*}
    [[ -z $id ]] || docker tag "$id" "$1"
    echo "$name@$digest"
  elif [[ -n $id && $1 == */* && $log =~ dial\ tcp|no\ such\ host|connection\ refused|[Tt]imeout|unreachable|canceled|EOF ]]; then
    name=${exact%@*}
    [[ $image != "$name@"* || $image == "$exact" ]] ||
      refuse "$log" "the registry cannot be reached, and $exact is not what is in effect, $image: name one by its digest"
    say "$log" "the registry cannot be reached: using what was pulled from it before, $exact"
    echo "$exact"
  elif [[ -n $id && $1 != */* ]]; then
    echo "$1" # a name that was given here
  else
    refuse "$log"
  fi
}

# The tag has the commit, and the image's id: the same commit gives another image on a newer base, or with changes.
build_image() {
  local building=$project-api:new id tag
  PLANT_STORE_IMAGE=$building docker compose build >&2
  id=$(docker image inspect --format '{{.Id}}' "$building" | cut -d : -f 2)
  tag=$project-api:$(git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null || echo sources)-${id::12}
  docker tag "$building" "$tag"
  docker image rm "$building" >/dev/null
  echo "$tag"
}

# record_image IMAGE: it is in effect from now on, and the one that was until now is the one before.
record_image() {
  local lines=("PLANT_STORE_IMAGE=$1")
  # Not after --back: a second one would undo the first.
  if [[ $1 != "$image" && $1 != "$previous" ]] && docker image inspect "$image" >/dev/null 2>&1; then
    lines+=("PLANT_STORE_PREVIOUS_IMAGE=$(name_exactly "$image")")
  fi
  record "${lines[@]}"
}
