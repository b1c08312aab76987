# The service's image. It also migrates (node dist/commands/migrate.js).
ARG NODE_IMAGE=node:24.21.0-trixie-slim

FROM ${NODE_IMAGE} AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# No package that the build or the service uses has an install script.
RUN --mount=type=cache,target=/root/.npm npm ci --ignore-scripts
COPY . .
# The checkout's owner may have kept its files to themselves.
RUN npm run build \
 && npm prune --omit=dev --ignore-scripts \
 && rm -r src dev ops tsconfig*.json package-lock.json .npmrc \
 && find node_modules -type f \( -name '*.ts' -o -name '*.map' \) -delete \
 && chmod -R go=rX .

FROM ${NODE_IMAGE}
# With Debian's fixes since the base was built. The service needs no package manager. tini is process 1, which forwards signals
# even before Node has its handlers.
RUN apt-get update \
 && apt-get upgrade -y \
 && apt-get install -y --no-install-recommends tini \
 && apt-get clean \
 && rm -rf /var/lib/apt/lists/* /opt/yarn* /usr/local/lib/node_modules /usr/local/bin/npm /usr/local/bin/npx /usr/local/bin/yarn*
ENV NODE_ENV=production
WORKDIR /app
COPY --from=build /app .
# A number, so that an orchestrator can see that it is not root. Any other will do.
USER 1000:1000
EXPOSE 3000
# The process, not the database: an orchestrator must not restart every replica while the database is unavailable. At the port of the
# metrics, which no clients can fill.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:' + (process.env.METRICS_PORT || 9464) + '/livez').then(({ ok }) => process.exit(ok ? 0 : 1))"]
ENTRYPOINT ["tini", "--"]
# The young generation takes three times this, in MiB. Node's snapshot: docs/decisions.md.
CMD ["node", "--max-semi-space-size=16", "--no-node-snapshot", "--disable-sigusr1", "dist/server.js"]
# The release workflow passes these. They come last, as each layer behind a changed argument is built again.
ARG VERSION
ARG REVISION
ARG CREATED
ARG SOURCE
LABEL org.opencontainers.image.title="plant-store" \
      org.opencontainers.image.description="A production Fastify and PostgreSQL service that stores plants" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${SOURCE}"
