/** Runs in a container of an image: says what the service of this image would refuse in its settings, a fault a line. */
try {
  const { readConfig } = await import('/app/dist/config/config.js')
  const config = readConfig(process.env)
  if ('trustProxy' in config)
    console.log('PLANT_STORE_IMAGE must name a newer release: 1.0.0 cannot run with this docker-compose.yml')
  else if (config.database.host !== 'db')
    console.log(
      'DATABASE_URL_FILE must have the host db: setup would replace this URL in the volume api-secrets'
    )
} catch ({ faults, message }) {
  console.log((faults ?? [message]).join('\n'))
}
