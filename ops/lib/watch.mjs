/** Runs in a replica, where its metrics are, for some seconds: ends with 1 and the metric when a create has failed by a fault of the service. */
import { setTimeout as sleep } from 'node:timers/promises'

const failed =
  /^plant_store_http_requests_total\{.*\bresult="(Internal|Unavailable|DeadlineExceeded|OutcomeUnknown)".*\} [1-9].*$/gm
const end = Date.now() + Number(process.argv[1]) * 1_000
for (;;) {
  const page = await fetch('http://127.0.0.1:9464/metrics')
  const found = (await page.text()).match(failed)
  if (found) {
    console.log(found.join('\n'))
    process.exit(1)
  }
  if (Date.now() >= end) break
  await sleep(200)
}
