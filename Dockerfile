# The service's image: Node without npm, the production packages and the built code; a user who owns nothing in it.
# It runs the service, its migrations (node dist/commands/migrate.js) and the token command (node dist/commands/create-token.js NAME).
ARG NODE_IMAGE=node:24.21.0-trixie-slim

# Debian's fixes come in with each build: Docker's images are rebuilt only while their tag is current.
# Of /usr/local only Node stays, of Debian's documents only the licences. tini is process 1: it forwards signals, even before Node has its handlers, and reaps.
FROM ${NODE_IMAGE} AS runtime
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get upgrade -y \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends tini \
 && find /usr/local /opt ! -type d ! -path /usr/local/bin/node -delete \
 && find /usr/local /opt -mindepth 1 -type d -empty -delete \
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} + \
 && find /tmp /root /home -mindepth 1 -delete \
 && find /usr/share -regex '/usr/share/\(doc\|info\|locale\|man\)/.*' ! -type d ! -name copyright -delete \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/cache/ldconfig/* /var/log/* /etc/*-
# With the same base and packages of Debian, the same sources give the same layers: no file keeps the time of the build.
ARG SOURCE_DATE_EPOCH=0
# BuildKit takes a cached COPY for the same files with other times: the time is in the name of what is copied.
RUN out=/out-${SOURCE_DATE_EPOCH} \
 && mkdir -p $out/dev $out/proc $out/sys \
 && for path in /*; do case $path in /dev | /out-* | /proc | /sys) ;; *) cp --archive "$path" $out ;; esac; done \
 && rm -f $out/etc/hosts $out/etc/hostname $out/etc/resolv.conf \
 && find $out -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH}" {} +

FROM ${NODE_IMAGE} AS packages
WORKDIR /app
COPY package.json package-lock.json .npmrc ./

# No package that the build or the service uses has an install script; what has one serves development (dev/, tests).
FROM packages AS build
RUN --mount=type=cache,target=/root/.npm npm ci --ignore-scripts --prefer-offline
COPY tsconfig.json tsconfig.build.json ./
COPY src src
COPY migrations migrations
COPY dev/prepare.ts dev/
COPY ops/check-node.mjs ops/
RUN npm run build
ARG SOURCE_DATE_EPOCH=0
RUN out=/out-${SOURCE_DATE_EPOCH} \
 && mkdir -p $out/app \
 && cp -r package.json migrations dist $out/app \
 && find $out -exec chmod u=rwX,go=rX {} + -exec touch --date="@${SOURCE_DATE_EPOCH}" {} +

# Removes what no process reads: types, maps of sources that are not there, the packages' own tests and documents, and
# OpenTelemetry's builds for bundlers. Licences stay.
FROM packages AS production
RUN --mount=type=cache,target=/root/.npm npm ci --ignore-scripts --prefer-offline --omit=dev \
 && find node_modules -type f \( -name '*.ts' -o -name '*.mts' -o -name '*.cts' -o -name '*.map' -o -name '*.tsbuildinfo' \) -delete \
 && find node_modules -type f -name '*.md' ! -iname '*licen[cs]e*' -delete \
 && find node_modules -regextype posix-extended -type d \
      -regex '.*node_modules/(@[^/]+/)?[^/@]+/(\.github|tests?|benchmarks?|docs?|examples?)' -prune -exec rm -rf {} + \
 && rm -rf node_modules/@opentelemetry/*/build/esm node_modules/@opentelemetry/*/build/esnext node_modules/.bin
ARG SOURCE_DATE_EPOCH=0
RUN out=/out-${SOURCE_DATE_EPOCH} \
 && mkdir -p $out/app \
 && mv node_modules $out/app \
 && find $out -exec chmod u=rwX,go=rX {} + -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH}" {} +

# From nothing, so that what was removed above is in no layer; ordered from what seldom changes to what often does.
FROM scratch
ARG SOURCE_DATE_EPOCH=0
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin NODE_ENV=production
COPY --from=runtime /out-${SOURCE_DATE_EPOCH} /
COPY --from=production /out-${SOURCE_DATE_EPOCH} /
COPY --from=build /out-${SOURCE_DATE_EPOCH} /
WORKDIR /app
# A number, so that an orchestrator can see that it is not root. Any other will do.
USER 1000:1000
EXPOSE 3000
# The process, not the database: an orchestrator must not restart every replica while the database is away.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["node", "dist/commands/healthcheck.js"]
ENTRYPOINT ["/usr/bin/tini", "--"]
# The young generation takes three times this, in MiB: V8's own limit, with memory to spare, is 90 MiB more and no faster.
# Node's snapshot: docs/decisions/no-node-snapshot.md.
CMD ["node", "--max-semi-space-size=16", "--no-node-snapshot", "--disable-sigusr1", "dist/server.js"]
ARG VERSION REVISION CREATED SOURCE
LABEL org.opencontainers.image.title="Plant Store" \
      org.opencontainers.image.description="A production Fastify and PostgreSQL service that stores plants" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${SOURCE}"
