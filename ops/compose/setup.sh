#!/bin/sh
# setup [NAME]: makes the secrets of docker-compose.yml once, and an access token for the caller that is named (dev
# without a name), which it writes to standard output. Copies the configuration of the other containers.
# setup --rotate: makes new passwords of the database instead.
# Each volume is mounted by its readers only, which run as users of their own: that is why the files can be read by all
# of them.
set -eu
umask 022
name=${1:-dev}
case $name in --rotate) ;; [.-]* | */*)
  echo "setup: the name may not begin with a dot or a hyphen, or have a slash" >&2
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

# The others read these files while they run: what has not changed stays, what has is replaced by a rename.
for part in compose grafana haproxy postgresql prometheus; do
  ! diff -r "/ops/$part" "/config/$part" >/dev/null 2>&1 || continue
  rm -rf /config/.new /config/.old
  cp -R --no-preserve=mode "/ops/$part" /config/.new
  [ ! -e "/config/$part" ] || mv "/config/$part" /config/.old
  mv /config/.new "/config/$part"
done

random() { node --print 'crypto.randomBytes(32).toString("hex")'; }

# Read once, when the database is made.
[ -e db/superuser-password ] || random | put db/superuser-password
for role in owner service; do
  if [ ! -e "db/$role-password" ] || [ "$name" = --rotate ]; then random | put "db/$role-password"; fi
done
printf 'postgres://owner:%s@db:5432/plants\n' "$(cat db/owner-password)" | put migrate/database-url
printf 'postgres://service:%s@db:5432/plants\n' "$(cat db/service-password)" | put api/database-url
[ "$name" != --rotate ] || exit 0

if [ ! -e "tokens/$name" ]; then
  made=$(node /app/dist/commands/create-token.js "$name")
  # The service gets the digest, not the token; and gets it first, so that no token is kept that it does not know.
  { if [ -e api/tokens ]; then cat api/tokens; fi; printf '%s\n' "$made" | sed -n 's/^entry  //p'; } | put api/tokens
  umask 077
  printf '%s\n' "$made" | sed -n 's/^token  //p' | put "tokens/$name"
fi
printf 'The access token of %s:\n' "$name" >&2
cat "tokens/$name"
