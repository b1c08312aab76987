#!/bin/sh
# Makes a self-signed certificate for this machine, followed by its key, unless there is one already.
# They can be read by all: the volume is mounted by the balancer only, which runs as a user of its own.
set -eu
cd /certificate
[ ! -e balancer.pem ] || exit 0
umask 022
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -days 3650 -subj /CN=localhost \
  -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout .key -out .new 2>/dev/null
cat .key >>.new
rm .key
mv .new balancer.pem
