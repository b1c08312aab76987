/** The product's application on another storage: what src/server.ts starts, with the repository replaced. */
import closeWithGrace from 'close-with-grace'
import { buildApp } from '../../src/app.ts'
import { type Config, readConfig } from '../../src/config/config.ts'
import { createLogger } from '../../src/logger.ts'
import type { PlantRepository } from '../../src/plants/repository.ts'

/** Listens with the settings of the environment, as the service does; the product's own pool stays unused. */
export async function serve(createRepository: (config: Config) => Pick<PlantRepository, 'create'>) {
  const config = readConfig(process.env)
  const app = await buildApp(config, createLogger(config.logLevel))
  Object.assign(app.plants, createRepository(config))
  await app.listenForMetrics()
  await app.listen({ host: config.host, port: config.port })
  closeWithGrace({ logger: app.log }, () => app.close())
}
