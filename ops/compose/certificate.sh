#!/bin/sh
# certificate: makes a self-signed certificate for this machine, followed by its key, unless there is one already.
# certificate --import: takes yours from standard input, its chain and then its key, instead.
# Both write when it expires to where Prometheus reads it.
# It can be read by all: the volume is mounted by the balancer only, which runs as a user of its own.
set -eu
umask 022
cd /certificate
trap 'rm -f .new .key' EXIT
if [ "${1:-}" = --import ]; then
  cat >.new
  public=$(openssl x509 -in .new -noout -pubkey)
  [ "$(openssl pkey -in .new -pubout)" = "$public" ] ||
    { echo 'certificate: the key is not that of the first certificate' >&2 && exit 1; }
  openssl x509 -in .new -noout -checkend 0 >/dev/null || { echo 'certificate: it has expired' >&2 && exit 1; }
  mv .new balancer.pem
elif [ ! -e balancer.pem ]; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -days 3650 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout .key -out .new 2>/dev/null
  cat .key >>.new
  mv .new balancer.pem
fi
expiry=$(date --date="$(openssl x509 -in balancer.pem -noout -enddate | sed 's/^notAfter=//')" +%s)
echo "plant_store_certificate_expiry_time_seconds $expiry" >/pages/.certificate
mv /pages/.certificate /pages/certificate.prom
