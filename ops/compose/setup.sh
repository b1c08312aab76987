#!/bin/sh
# setup: makes the secrets of docker-compose.yml that do not exist yet, and a certificate for this machine.
# setup NAME: also makes an access token for this caller, or finds the one that was made, and writes it to standard output.
# setup --revoke NAME: takes this caller's tokens away.
# setup --rotate: makes new passwords for the database instead; `roles` puts them into effect.
# setup --tokens: takes the entries of a backup from standard input.
# setup --certificate: takes yours from standard input, its chain and then its key.
# Each volume is mounted by its readers only, which run as users of their own: that is why all of them can read its files.
set -eu
umask 022
cd /secrets
mode=${1:-}
# One at a time: two would add to one file.
exec 9>tokens/.lock
flock 9

fail() { echo "setup: $*" >&2 && exit 1; }

# put FILE: from standard input, all of it or nothing. A file that would stay the same is not touched, so that nobody reads it again.
put() {
  cat >"${1%/*}/.new"
  if cmp -s "${1%/*}/.new" "$1"; then rm "${1%/*}/.new"; else mv "${1%/*}/.new" "$1"; fi
}

# The containers run as other users than the checkout's owner.
[ -z "$(find /ops ! -perm -004)" ] || fail 'other users cannot read ops/: run chmod -R go=rX deploy ops'

# An image before 18 declares a volume for its data, which would not outlive the container. This container has the mounts of db's.
directory=$PGDATA
until [ -d "$directory" ]; do directory=${directory%/*}; done
[ "$(df -P "$directory" | awk 'END { print $NF }')" = /var/lib/postgresql ] ||
  fail "this image of PostgreSQL would keep its data in $PGDATA, outside the volume data: set POSTGRES_IMAGE to 18 or later"

case ${PLAIN_BIND:-127.0.0.1} in 127.* | ::1) ;; *)
  echo "setup: warning: other machines can send tokens in clear text to $PLAIN_BIND (BIND); docs/balancers.md, The stack's edge" >&2
  ;;
esac

# The superuser has no password once the roles are made; the image wants one at first.
[ -s db/superuser-password ] || openssl rand -hex 32 | put db/superuser-password

# role NAME READER DATABASE: the reader gets a URL with the password, the database the password.
role() {
  password=$(sed -n 's|^postgres://[^:]*:\([0-9a-f]*\)@.*|\1|p' "$2/database-url" 2>/dev/null || true)
  # The exporter reads its own only when it starts.
  if [ -z "$password" ] || { [ "$mode" = --rotate ] && [ "$1" != exporter ]; }; then password=$(openssl rand -hex 32); fi
  echo "$password" | put "db/$1-password"
  echo "postgres://plants_$1:$password@$3" | put "$2/database-url"
}
role owner migrate "${OWNER_DATABASE:-db:5432/plants?sslmode=disable}"
role service api "${SERVICE_DATABASE:-db:5432/plants?sslmode=disable}"
role exporter exporter db:5432/postgres
put exporter/password <db/exporter-password

# The service needs an entry to start: this one recognises nobody.
[ -s api/tokens ] || echo "nobody:sha256:$(openssl rand -hex 32)" | put api/tokens

if [ "$mode" = --certificate ]; then
  cat >certificate/.given
  public=$(openssl x509 -in certificate/.given -noout -pubkey)
  [ "$(openssl pkey -in certificate/.given -pubout)" = "$public" ] || fail 'the key is not that of the first certificate'
  put certificate/balancer.pem <certificate/.given
elif [ ! -s certificate/balancer.pem ]; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -days 3650 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout certificate/.key -out certificate/.certificate 2>/dev/null
  cat certificate/.certificate certificate/.key | put certificate/balancer.pem
fi
rm -f certificate/.given certificate/.key certificate/.certificate
expiry=$(date --date="$(openssl x509 -in certificate/balancer.pem -noout -enddate | sed 's/^notAfter=//')" +%s)
echo "plant_store_certificate_expiry_time_seconds $expiry" | put /textfile/certificate.prom
# The profile backup writes there as a user of its own.
chmod 1777 /textfile

case $mode in
'' | --rotate | --certificate) exit 0 ;;
--tokens)
  given=$(cat)
  ! echo "$given" | grep -qvE '^[A-Za-z0-9._-]{1,64}:sha256:[0-9a-f]{64}$' || fail 'each line must be name:sha256:<64 hex digits>'
  echo "$given" | put api/tokens && exit 0
  ;;
--revoke)
  cut -d : -f 1 api/tokens | grep -qxF -e "${2-}" || fail "'${2-}' has no token"
  awk -F : -v name="$2" '$1 != name' api/tokens | put api/tokens
  # The service needs an entry.
  [ -s api/tokens ] || echo "nobody:sha256:$(openssl rand -hex 32)" | put api/tokens
  rm -f "tokens/$2"
  exit 0
  ;;
-* | .* | sha256 | *[!A-Za-z0-9._-]*) fail "a name has letters, digits, '.', '_' and '-', and does not begin with '.' or '-'" ;;
esac

# A token without an entry was revoked, or the service has lost its entries.
if [ ! -s "tokens/$mode" ] || ! grep -q "^$mode:" api/tokens; then
  made=$(openssl rand -base64 32 | tr '+/' '-_' | tr -d '=')
  # The service gets the digest, not the token, and gets it first: no token is kept that it does not know.
  { cat api/tokens && echo "$mode:sha256:$(printf %s "$made" | sha256sum | cut -d ' ' -f 1)"; } | put api/tokens
  (umask 077 && echo "$made" >"tokens/$mode")
fi
printf 'The access token of %s:\n' "$mode" >&2
cat "tokens/$mode"
