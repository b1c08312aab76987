#!/bin/sh
# setup: makes the secrets of docker-compose.yml that do not exist yet, and copies the configuration of the other containers.
# setup NAME: makes an access token for this caller, too, and writes it to standard output.
# setup --revoke NAME: takes this caller's tokens away.
# setup --restore: takes the secrets of a backup from standard input, unless there are tokens, and writes their names.
# setup --rotate: makes new passwords for the database instead.
# PLAIN_BIND is the address on which clear text is published, REPLICAS and PROFILES are what is wanted.
# OWNER_DATABASE and SERVICE_DATABASE say where the migrations and the service find the database, and /stack has the
# configuration of another stack.
# Each volume is mounted by its readers only, which run as users of their own: that is why the files can be read by all
# of them.
set -eu
umask 022
name=${1:-}
case $name in --revoke | --restore | --rotate) ;; [.-]* | */*)
  echo "setup: the name may not begin with a dot or a hyphen, or have a slash" >&2
  exit 1
  ;;
esac

case ${PLAIN_BIND:-127.0.0.1} in 127.* | ::1) ;; *)
  echo "setup: warning: other machines can send tokens in clear text to $PLAIN_BIND (BIND); docs/balancers.md, TLS" >&2
  ;;
esac

cd /secrets

# put FILE: from standard input, all of it or nothing.
put() {
  cat >"${1%/*}/.new"
  mv "${1%/*}/.new" "$1"
}

# One at a time: two would add to one file.
exec 9>tokens/.lock
flock 9

# The remains of a run that was killed.
rm -rf ./*/.new /pages/.new /config/.new /config/.old
mkdir /config/.old

# The other containers read these files while they run: changed ones are replaced by a rename, the others stay.
for part in /ops/alertmanager /ops/compose /ops/grafana /ops/haproxy /ops/postgresql /ops/prometheus /stack; do
  copy=/config/${part##*/}
  [ -e "$part" ] && ! diff -r "$part" "$copy" >/dev/null 2>&1 || continue
  cp -R --no-preserve=mode "$part" /config/.new
  [ ! -e "$copy" ] || mv "$copy" /config/.old
  mv /config/.new "$copy"
done
rm -rf /config/.old

# The tokens come last: until then the next run begins anew. The entry that recognises nobody is no token.
if [ "$name" = --restore ] && ! grep -qsv -e '^nobody:' -e '^$' api/tokens; then
  mkdir tokens/.new
  tar -C tokens/.new --no-same-owner -x
  mv tokens/.new/api/tokens tokens/.new/entries
  for part in api certificate db migrate; do cp -R --preserve=mode "tokens/.new/$part/." "$part"; done
  rm -f db/plants_exporter-verifier # of another password than the one in exporter/
  find tokens/.new/tokens -type f ! -name .lock -exec mv --no-clobber --target-directory=tokens {} +
  put api/tokens <tokens/.new/entries
  rm -r tokens/.new
  sed -n '/^nobody:/d; s/:.*//p' api/tokens | sort -u
fi

# What Prometheus serves, to browsers and to itself.
put /pages/runbook.html </ops/prometheus/web/runbook.html
{
  echo "plant_store_replicas_wanted ${REPLICAS:-2}"
  case ",${PROFILES:-}," in *,tls,*) echo 'plant_store_balancer_wanted{instance="balancer-tls:8405"} 1' ;; esac
  case ",${PROFILES:-}," in *,backup,*) echo 'plant_store_receiver_wanted 1' ;; esac
} | put /pages/wanted.prom
if [ ! -e /pages/backup.prom ]; then
  printf '# When a backup was last proved; before the first, when the stack was made.\nplant_store_backup_time_seconds %s\n' "$(date +%s)" |
    put /pages/backup.prom
fi

# If the generator fails, the script ends before a file is made.
random() { bytes=$(od -An -N32 -v -tx1 /dev/urandom) && printf %s $bytes; }

# The superuser has no password once the roles are made; the image wants one at first.
if [ ! -s db/superuser-password ]; then
  password=$(random)
  printf '%s\n' "$password" | put db/superuser-password
fi

# What PostgreSQL stores of a password (RFC 5803): enough to check one, not to log in.
verifier='
const { createHash, createHmac, pbkdf2Sync, randomBytes } = require("node:crypto")
const password = require("node:fs").readFileSync(0, "utf8")
const salt = randomBytes(16)
const key = (name) => createHmac("sha256", pbkdf2Sync(password, salt, 4096, 32, "sha256")).update(name).digest()
const stored = createHash("sha256").update(key("Client Key")).digest("base64")
console.log(`SCRAM-SHA-256$4096:${salt.toString("base64")}$${stored}:${key("Server Key").toString("base64")}`)'

# role NAME DIRECTORY DATABASE: the reader of the directory gets a URL with the password, the database its verifier.
# If both exist, they belong to each other. Stacks of earlier releases keep the names of their roles.
role() {
  user=plants_$1
  if grep -q "^postgres://$1:" "$2/database-url" 2>/dev/null; then user=$1; fi
  password=$(sed -n "s|^postgres://$user:\([0-9a-f]\{64\}\)@.*|\1|p" "$2/database-url" 2>/dev/null || true)
  # The exporter reads its own only when it starts.
  if [ -z "$password" ] || { [ "$name" = --rotate ] && [ "$1" != exporter ]; }; then password=$(random); fi
  url=postgres://$user:$password@$3
  if [ -s "db/$user-verifier" ] && [ "$(cat "$2/database-url" 2>/dev/null)" = "$url" ]; then return; fi
  recognised=$(printf %s "$password" | node --eval "$verifier")
  rm -f "db/$user-verifier" "db/$1-password"
  printf '%s\n' "$url" | put "$2/database-url"
  printf '%s\n' "$recognised" | put "db/$user-verifier"
}
role owner migrate "${OWNER_DATABASE:-db:5432/plants?sslmode=disable}"
role service api "${SERVICE_DATABASE:-db:5432/plants?sslmode=disable}"
role exporter exporter db:5432/postgres
sed 's/.*:\([0-9a-f]*\)@.*/\1/' exporter/database-url | put exporter/password

# The service needs an entry to start: this one recognises nobody.
if [ ! -s api/tokens ]; then
  digest=$(random)
  printf 'nobody:sha256:%s\n' "$digest" | put api/tokens
fi
case $name in
'' | --restore | --rotate) exit 0 ;;
--revoke)
  [ -e "tokens/${2:?setup: whose?}" ] || grep -q "^$2:" api/tokens || { echo "setup: $2 has no token" >&2 && exit 1; }
  others=$(awk -F : -v name="$2" '$1 != name' api/tokens)
  printf '%s\n' "$others" | put api/tokens
  rm -f "tokens/$2"
  exit 0
  ;;
esac

# A token without an entry was revoked, or the service has lost its entries.
if [ ! -s "tokens/$name" ] || ! grep -q "^$name:" api/tokens; then
  made=$(node /app/dist/commands/create-token.js "$name")
  # The service gets the digest, not the token, and gets it first: no token is kept that it does not know.
  { cat api/tokens && printf '%s\n' "$made" | sed -n 's/^entry  //p'; } | put api/tokens
  umask 077
  printf '%s\n' "$made" | sed -n 's/^token  //p' | put "tokens/$name"
fi
printf 'The access token of %s:\n' "$name" >&2
cat "tokens/$name"
