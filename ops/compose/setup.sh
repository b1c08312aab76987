#!/bin/sh
# Makes the secrets of docker-compose.yml once, and an access token for the caller that is named (dev without a name).
# Writes the token to standard output. Each volume is mounted by its readers only, which run as users of their own:
# that is why the files can be read by all of them.
set -eu
umask 022
name=${1:-dev}
case $name in .* | */*)
  echo "setup: the name may not begin with a dot or have a slash" >&2
  exit 1
  ;;
esac
cd /secrets

# put FILE: from standard input, all of it or nothing.
put() {
  cat >"${1%/*}/.new"
  mv "${1%/*}/.new" "$1"
}

# One at a time: both would add to one file.
exec 9>tokens/.lock
flock 9

random() { node --print 'crypto.randomBytes(32).toString("hex")'; }

if [ ! -e api/database-url ]; then
  random | put db/owner-password
  random | put db/service-password
  printf 'postgres://plants:%s@db:5432/plants\n' "$(cat db/owner-password)" | put migrate/database-url
  printf 'postgres://service:%s@db:5432/plants\n' "$(cat db/service-password)" | put api/database-url
fi

if [ ! -e "tokens/$name" ]; then
  made=$(node /app/dist/commands/create-token.js "$name")
  # The service gets the digest, not the token; and gets it first, so that no token is kept that it does not know.
  { if [ -e api/tokens ]; then cat api/tokens; fi; printf '%s\n' "$made" | sed -n 's/^entry  //p'; } | put api/tokens
  umask 077
  printf '%s\n' "$made" | sed -n 's/^token  //p' | put "tokens/$name"
fi
printf 'The access token of %s:\n' "$name" >&2
cat "tokens/$name"
