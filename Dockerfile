# The service, its migrations (node dist/commands/migrate.js) and the token command (node dist/commands/create-token.js NAME).
ARG NODE_IMAGE=node:24.21.0-trixie-slim

# No package that the build or the service uses has an install script; what has one serves development.
FROM ${NODE_IMAGE} AS production
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN --mount=type=cache,target=/root/.npm npm ci --ignore-scripts --omit=dev \
 && find node_modules -type f \( -name '*.ts' -o -name '*.[cm]ts' -o -name '*.map' \) -delete

FROM production AS build
RUN --mount=type=cache,target=/root/.npm npm ci --ignore-scripts
COPY . .
RUN npm run build && mkdir /out && cp -r package.json migrations public dist /out && chmod -R u=rwX,go=rX /out

# Debian's fixes come in with each build. tini forwards signals, even before Node has its handlers. npm is not needed.
FROM ${NODE_IMAGE}
RUN apt-get update && apt-get upgrade -y && apt-get install -y --no-install-recommends tini \
 && rm -rf /var/lib/apt/lists/* /home/node /opt/yarn* /usr/local/lib/node_modules /usr/local/bin/npm /usr/local/bin/npx /usr/local/bin/corepack /usr/local/bin/yarn*
ENV NODE_ENV=production
WORKDIR /app
COPY --from=production /app/node_modules node_modules
COPY --from=build /out .
# A number, so that an orchestrator can see that it is not root. Any other will do.
USER 1000:1000
EXPOSE 3000
# The process, not the database: an orchestrator must not restart every replica while the database is away.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["node", "dist/commands/healthcheck.js"]
ENTRYPOINT ["/usr/bin/tini", "--"]
# The young generation takes three times this, in MiB. Node's snapshot: docs/decisions/no-node-snapshot.md.
CMD ["node", "--max-semi-space-size=16", "--no-node-snapshot", "--disable-sigusr1", "dist/server.js"]
ARG VERSION REVISION CREATED SOURCE
LABEL org.opencontainers.image.title="Plant Store" org.opencontainers.image.licenses="MIT" org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" org.opencontainers.image.created="${CREATED}" org.opencontainers.image.source="${SOURCE}"
