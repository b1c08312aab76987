# The service's image: the built code with its production dependencies, run by a user who owns nothing in it.
ARG NODE_IMAGE=node:24-trixie-slim

FROM ${NODE_IMAGE} AS packages
WORKDIR /app
COPY package.json package-lock.json .npmrc ./

# No package that the build or the service uses has an install script; what has one serves development (dev/, tests).
FROM packages AS build
RUN npm ci --ignore-scripts
COPY tsconfig.json tsconfig.build.json ./
COPY src src
RUN npm run build

FROM packages AS production
# Source maps are for debuggers that do not run here.
RUN npm ci --ignore-scripts --omit=dev && find node_modules -name '*.map' -delete

FROM ${NODE_IMAGE}
ENV NODE_ENV=production
WORKDIR /app
COPY --from=production /app/node_modules node_modules
COPY package.json ./
COPY migrations migrations
COPY public public
COPY --from=build /app/dist dist
# A number, so that an orchestrator can see that it is not root.
USER 1000:1000
EXPOSE 3000
CMD ["node", "dist/server.js"]
