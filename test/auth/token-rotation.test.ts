/** Tokens that are replaced under load: no valid one is refused, and none that is revoked is taken for long. */
import { mkdir, rename, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { failure, headers, startService, success } from '../../harness/service/service.ts'
import { until } from '../../harness/time/until.ts'

const by = (secret: string) => ({ headers: { ...headers, authorization: `Bearer ${secret}` } })
const steady = 'steady-secret-0123456789'
const rotated = (index: number) => `rotated-secret-${index}-0123456789`
const list = (index: number) => `steady:${steady}\nrotated:${rotated(index)}\nrotated:${rotated(index + 1)}\n`
const revoked = failure(401, 'the bearer token is not valid', {
  'www-authenticate': 'Bearer realm="plant-store", error="invalid_token"'
})

let lastId = 0
const plant = () => ({ id: ++lastId, name: 'n' })

/** A file in a directory that a link swaps, as Kubernetes does; secret-file.test.ts has the other ways. */
async function makeFile(t: Test) {
  const directory = t.testdir({})
  let version = 0
  await symlink(join('..data', 'tokens'), join(directory, 'tokens'))
  return {
    path: join(directory, 'tokens'),
    async write(text: string) {
      const name = `..${++version}`
      await mkdir(join(directory, name))
      await writeFile(join(directory, name, 'tokens'), text)
      await symlink(name, join(directory, '..new'))
      await rename(join(directory, '..new'), join(directory, '..data'))
    }
  }
}

t.test('a file that is swapped 40 times under load costs no valid token a request', async (t) => {
  const { path, write } = await makeFile(t)
  await write(list(0))
  const service = await startService(t, { AUTH_TOKENS: '', AUTH_TOKENS_FILE: path })
  let isDone = false
  let succeeded = 0
  const refused: unknown[] = []
  const load = Array.from({ length: 4 }, async () => {
    while (!isDone) {
      const response = await service.post(plant(), by(steady))
      if (response.status === 200) succeeded++
      else refused.push(response)
      await sleep(5)
    }
  })

  for (let index = 1; index <= 40; index++) {
    await write(list(index))
    await service.app.reloadTokens()
    t.strictSame(await service.post(plant(), by(rotated(index + 1))), success({ name: 'n' }))
    t.strictSame(await service.post(plant(), by(rotated(index))), success({ name: 'n' }))
    t.strictSame(await service.post(plant(), by(rotated(index - 1))), revoked)
  }
  // Without a reload, too.
  await write(`steady:${steady}\n`)
  const ask = () => service.post(plant(), by(rotated(41)))
  t.strictSame(await until('the file is read', ask, ({ status }) => status !== 200), revoked)

  isDone = true
  await Promise.all(load)
  t.comment(`${succeeded} requests`)
  t.ok(succeeded > 200)
  t.strictSame(refused, [])
})
