#!/bin/sh
# backup.sh: the physical backup of docker-compose.yml's stack, in /backup, which is root's alone.
# backup.sh receive: writes the WAL there as PostgreSQL streams it, and the secrets as they change (the service `backup`).
# backup.sh night: adds a base backup, restores everything on trial, reports that to Prometheus, and deletes what no restore to
# one of the last 14 days needs. Standard input is .env.
# backup.sh restore [TIME]: makes .restored in the volume of `db`, with the plants as they were last, or at this time in UTC.
# /backup has a directory for each stream of WAL without a gap, named after its begin, its database and its timeline. It has
# the WAL, and base backups that are named after their end.
set -eu
umask 077
export PGUSER=plants LC_ALL=C

say() { echo "backup: $*" >&2; }
fail() { say "$@" && exit 1; }
query() { psql --no-psqlrc --quiet --tuples-only --no-align --dbname=plants --command="$1"; }
name_time() { date --utc --date="$1" +%Y-%m-%dT%H%M%SZ; }
# list PATTERN...: the paths that exist, oldest first.
list() { ls -d "$@" 2>/dev/null || true; }
# until_time TIME: of the paths that come in, those with this name or an earlier one.
until_time() { awk -F / -v time="$1" '$NF "" <= time'; }

last_stream() { list /backup/2* | tail -n 1; }

# open_stream: sets `stream`, which the slot continues: the last one, or a new one where WAL is missing between.
open_stream() {
  identify="select system_identifier || '-' || left(pg_walfile_name(pg_current_wal_lsn()), 8) from pg_control_system()"
  id=$(query "$identify")
  # An empty database, made after a loss, must not begin where the backups of the lost one are.
  while list /backup/2* | grep -q -v -e "-${id%-*}-"; do
    say 'BACKUP_DIRECTORY has the backups of another database: restore them, or move them away, as by mv DIRECTORY DIRECTORY.old'
    sleep 2
    id=$(query "$identify")
  done
  stream=$(list /backup/2*-"$id" | tail -n 1)
  # A slot that has lost WAL has no position.
  segment=$(query "select pg_walfile_name(restart_lsn) from pg_replication_slots where slot_name = 'backup'")
  # A slot with a position has a directory with backups. Docker makes an empty one where its disk is not mounted.
  [ -z "$segment" ] || [ -n "$(list /backup/2*)" ] ||
    fail "BACKUP_DIRECTORY is empty: mount its disk, or begin anew: psql -U plants -c \"select pg_drop_replication_slot('backup')\""
  [ -z "$stream" ] || [ -z "$segment" ] || [ -z "$(list "$stream/wal/$segment" "$stream/wal/$segment.partial")" ] || return 0
  find /backup -mindepth 1 -maxdepth 2 -type d -empty -delete # of a start that broke off
  stream=/backup/$(name_time now)-$id
  mkdir -p "$stream/wal"
  query "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = 'backup'"
  query "select pg_create_physical_replication_slot('backup', true)" >/dev/null
}

receive() {
  trap 'exit 0' INT TERM
  chmod 700 /backup
  exec 9>/backup/.lock
  flock --nonblock 9 || fail 'another container writes to BACKUP_DIRECTORY'
  kept=
  while :; do
    until pg_isready --quiet; do sleep 1; done
    open_stream
    # On a full disk pg_receivewal leaves a file that it has padded in part. It has no WAL, and no later start accepts it.
    find "$stream/wal" -name '*.partial' ! -size 16777216c -delete
    pg_receivewal --no-loop --synchronous --slot=backup --directory="$stream/wal" &
    receiver=$!
    # Not before the stream: secrets of a stack that began anew stay away from those of the lost one.
    [ -n "$kept" ] || { take_first_bases & save_secrets & kept=yes; }
    wait "$receiver" || true
    sleep 1
  done
}

take_first_bases() {
  while sleep 1; do
    stream=$(last_stream)
    [ -z "$stream" ] || [ -n "$(list "$stream"/base/2*)" ] || take_base || sleep 60
  done
}

save_secrets() {
  while sleep 5; do
    [ -n "$(list /backup/2*)" ] || continue
    # Under the lock of setup, so that no token is there in part.
    flock /secrets/tokens/.lock tar -C /secrets --sort=name -cf /backup/.secrets api certificate db migrate tokens || continue
    # The tokens of a stack that began anew never replace others.
    tar -xOf /backup/.secrets api/tokens | grep -qv '^nobody:' || [ ! -e /backup/secrets.tar ] || continue
    cmp -s /backup/.secrets /backup/secrets.tar || mv /backup/.secrets /backup/secrets.tar || true
  done
}

# take_base: what has changed since the last base backup, or all of the database once a week.
take_base() (
  exec 8>/backup/.base
  flock 8
  stream=$(last_stream) new=$stream/base/.new kind=incremental
  last=$(list "$stream"/base/2* | tail -n 1) full=$(list "$stream"/base/2*-full | tail -n 1)
  mkdir -p "$stream/base"
  rm -rf "$new"
  # An hour before it is a week old: the timer is not exact.
  [ "$full" != "$(echo "$full" | until_time "$(name_time '167 hours ago')")" ] &&
    pg_basebackup --pgdata="$new" --checkpoint=fast --incremental="$last/backup_manifest" ||
    { kind=full && rm -rf "$new" && pg_basebackup --pgdata="$new" --checkpoint=fast; }
  pg_verifybackup --quiet "$new" && mv "$new" "$stream/base/$(name_time now)-$kind"
)

# as_postgres COMMAND...: which may read what is root's.
as_postgres() {
  setpriv --reuid=postgres --regid=postgres --init-groups --inh-caps=-all,+dac_read_search --ambient-caps=-all,+dac_read_search "$@"
}

# choose [TIME]: sets `stream`, `base` and `chain`, the base backups that a restore to this time reads.
choose() {
  time=$(echo "${1:-3}" | tr -d :)
  stream=$(list /backup/2* | until_time "$time" | tail -n 1)
  base=$(list /backup/2*/base/2* | until_time "$time" | tail -n 1)
  [ -n "$base" ] || fail "there is no base backup${1:+ from before $1}"
  [ "${base%/base/*}" = "$stream" ] || say "the newest base backup is older than $stream: what came after a gap in the WAL is missing"
  chain=
  for each in $(list "${base%/*}"/2* | until_time "${base##*/}"); do
    case $each in *-full) chain=$each ;; *) chain="$chain $each" ;; esac
  done
}

# recover DIRECTORY [TIME]: restores what `choose` has chosen, and leaves a server that has it on a socket in /tmp.
recover() {
  rm -rf "$1"
  pg_combinebackup --output="$1" $chain
  touch "$1/recovery.signal"
  chown -R postgres:postgres "$1"
  # Of a segment with several copies the last one has most. What is not complete has its size already.
  command='found=; for file in /backup/2*/wal/%f.partial /backup/2*/wal/%f; do [ ! -e "$file" ] || found=$file; done
    [ -n "$found" ] && cp "$found" "%p"'
  as_postgres postgres -D "$1" -c restore_command="$command" -c recovery_target_timeline=$((0x${stream##*-})) -c recovery_target_action=promote \
    ${2:+-c recovery_target_time="$2"} -c hot_standby=off -c archive_mode=off -c listen_addresses= -c unix_socket_directories=/tmp \
    -c shared_buffers=128MB -c logging_collector=off 2>/tmp/log &
  server=$!
  until grep -q '^ready' "$1/postmaster.pid" 2>/dev/null; do
    [ -e "/proc/$server" ] || fail "$(grep -e FATAL -e PANIC /tmp/log || tail -n 3 /tmp/log)"
    sleep 0.2
  done
  grep -e 'last completed transaction' -e 'recovery stopping' /tmp/log >&2 || true
}

count_plants() { query 'select count(*) from plants'; }

night() {
  began=$(date +%s)
  cat >/backup/.settings
  if [ -s /backup/.settings ]; then mv /backup/.settings /backup/.env; fi
  # A receiver that has just begun copies them soon.
  for _ in $(seq 60); do [ ! -e /backup/secrets.tar ] || break; sleep 1; done
  tar -tf /backup/secrets.tar api/database-url api/tokens db/superuser-password migrate/database-url tokens >/dev/null
  needed=$(query 'select (sum(pg_database_size(oid)) * 1.5 / 1024)::bigint from pg_database')
  [ "$(df -k --output=avail /var/lib/postgresql | tail -n 1)" -gt "$needed" ] || fail "the trial needs $needed KiB where Docker has its volumes"
  take_base
  taken=$(date +%s)
  before=$(count_plants) # some are in the WAL alone
  choose
  # The trial alone would miss a damaged block that a later backup of the chain replaces.
  for each in $chain; do pg_verifybackup --quiet "$each"; done
  recover /var/lib/postgresql/trial
  restored=$(export PGHOST=/tmp && count_plants)
  [ "$restored" -ge "$before" ] || fail "$restored of $before plants were restored"
  say "$(du -sh "$base" | cut -f 1) taken in $((taken - began)) s," \
    "$(du -sh /var/lib/postgresql/trial | cut -f 1) with $restored plants restored on trial in $(($(date +%s) - taken)) s"
  (umask 022 && echo "plant_store_backup_time_seconds $began" >/pages/.backup && mv /pages/.backup /pages/backup.prom)
  prune
}

# prune: keeps the last complete base backup that is older than two weeks, and what follows it.
prune() {
  oldest=$(list /backup/2*/base/2*-full | until_time "$(name_time '14 days ago')" | tail -n 1)
  [ -n "$oldest" ] || return 0
  stream=${oldest%/base/*}
  for each in $(list /backup/2* | until_time "${stream##*/}") $(list "$stream"/base/2* | until_time "${oldest##*/}"); do
    # A deletion that breaks off leaves nothing that looks whole.
    [ "$each" = "$stream" ] || [ "$each" = "$oldest" ] || { rm -rf /backup/.old && mv "$each" /backup/.old; }
  done
  rm -rf /backup/.old
  pg_archivecleanup "$stream/wal" "$(sed -n 's/^START WAL LOCATION: .*(file \(.*\))$/\1/p' "$oldest/backup_label")"
}

restore() {
  choose "$@"
  recover /var/lib/postgresql/.restored "$@"
  as_postgres pg_ctl --pgdata=/var/lib/postgresql/.restored --silent --timeout=86400 stop
}

case $1 in receive | night | restore) "$@" ;; *) fail "unknown: $1" ;; esac
