#!/bin/sh
# Creates a plant with curl, by the rules of ../clients.md.

[ -n "${PLANTS_URL:-}" ] && [ -n "${PLANTS_TOKEN:-}" ] || { echo 'set PLANTS_URL and PLANTS_TOKEN' >&2 && exit 1; }

create_plant() { # BODY KEY: prints the plant; returns 1 if nothing is stored, 2 if the plant may be
  end=$(($(date +%s) + ${PLANTS_RETRY_SECONDS:-120})) outcome=none spread=1
  while
    response=$(curl -sSi --max-time 30 "$PLANTS_URL" -d "$1" -H "Authorization: Bearer $PLANTS_TOKEN" \
      -H 'Content-Type: application/json' -H "Idempotency-Key: $2") && code=0 || { code=$? && response=; }
    body=$(printf '%s\n' "$response" | tail -n 1)
    status=$(printf '%s\n' "$response" | awk '/^HTTP/ { status = $2 } END { print status }')
    case $status$body in
      '200{"name":'*) printf '%s\n' "$body" && return ;;
      '400{"error":408,'* | '400{"error":429,'* | '400{"error":500,'* | '400{"error":503,'*) ;;
      '400{"error":'[0-9]*) break ;;
    esac
    case $code in
      2 | 3 | 5 | 6 | 7 | 127) ;; # nothing was sent: no address, no connection, no curl
      *) printf '%s\n' "$response" | grep -qi '^write-outcome: none' || outcome=unknown ;;
    esac
    after=$(printf '%s\n' "$response" | awk -F: 'tolower($1) == "retry-after" { print int($2) }')
    seconds=$((${after:-0} + $(od -An -N1 -tu1 /dev/urandom) % spread))
    [ $(($(date +%s) + seconds)) -le "$end" ]
  do
    sleep "$seconds"
    [ "$spread" -ge 8 ] || spread=$((2 * spread))
  done
  printf '%s\n' "$response" | grep -iE '^(error-name|x-request-id):' >&2
  printf '%s\nwrite outcome: %s\n' "${body:-no response}" "$outcome" >&2
  [ "$outcome" = none ] && return 1 || return 2
}

# Store the key with your work item before the first attempt.
key=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
create_plant '{"id":9223372036854775801,"name":"Monstera","tag":"tropical"}' "$key"
