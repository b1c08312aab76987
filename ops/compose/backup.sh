#!/bin/sh
# backup.sh receive: writes the WAL to /backup/wal as PostgreSQL streams it (the service `backup`).
# backup.sh base: adds a base backup, verifies it, tells Prometheus, and deletes what is older than two weeks.
# backup.sh restore [TIME]: fills the empty volume of the database, with all that was received or as it was at this time.
set -eu
export PGUSER=plants
case $1 in
receive)
  mkdir -p /backup/wal /backup/base
  # The server that the image runs at first has no TCP, and ends soon.
  until pg_isready --quiet && grep -qx '\*' "$PGDATA/postmaster.pid"; do sleep 1; done
  pg_receivewal --slot=backup --create-slot --if-not-exists
  exec pg_receivewal --slot=backup --synchronous --directory=/backup/wal ;;
base)
  rm -rf /backup/.new && mkdir -p /backup/base
  pg_basebackup --pgdata=/backup/.new --checkpoint=fast
  pg_verifybackup --quiet /backup/.new
  cp /run/secrets/tokens /backup/tokens
  (umask 077 && cp /run/certificate/balancer.pem /backup/certificate.pem)
  mv /backup/.new "/backup/base/$(date -u +%Y-%m-%dT%H:%M:%SZ)"
  echo "plant_store_backup_time_seconds $(date +%s)" >/textfile/.backup && mv /textfile/.backup /textfile/backup.prom
  find /backup/base -mindepth 1 -maxdepth 1 -mtime +14 -exec rm -r {} +
  pg_archivecleanup /backup/wal "$(sed -n '1s/.*(file \(.*\))/\1/p' "$(ls -d /backup/base/* | head -n 1)/backup_label")" ;;
restore)
  [ ! -e "$PGDATA" ] || { echo 'backup: the volume has a database' >&2 && exit 1; }
  base=$(ls /backup/base | awk -v time="$(date -u --date="${2:-tomorrow}" +%Y-%m-%dT%H:%M:%SZ)" '$0 < time' | tail -n 1)
  mkdir -p "${PGDATA%/*}" && cp -a "/backup/base/${base:?no base backup is as old}" "$PGDATA" && touch "$PGDATA/recovery.signal"
  until=${2:+$(date -u --date="$2" +%FT%T.%6N+00)}
  wal='restore_command=cp /backup/wal/%f %p || cp /backup/wal/%f.partial %p'
  # recover TIME: until the time is reached or the WAL has ended; fails if the server does.
  recover() {
    pg_ctl start --no-wait --log=/tmp/log --options="-c '$wal' -c 'recovery_target_time=$1' -c hot_standby=off -c recovery_target_action=promote -c listen_addresses="
    until grep -q '^ready' "$PGDATA/postmaster.pid"; do sleep 1 && [ -e "$PGDATA/postmaster.pid" ] || return 1; done
  }
  if ! recover "$until"; then
    # PostgreSQL does not know whether anything was committed between its last commit and the time.
    grep -q 'recovery ended before configured recovery target was reached' /tmp/log || { cat /tmp/log >&2 && exit 1; }
    echo "backup: nothing was received from after $2: all that was received is restored" >&2
    recover '' || { cat /tmp/log >&2 && exit 1; }
  fi
  pg_ctl stop --timeout=3600 ;;
esac
