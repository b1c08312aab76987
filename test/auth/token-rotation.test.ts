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

/** The three ways to change a file; each returns its path and a function that writes it. */
const ways: Record<string, (t: Test) => Promise<{ path: string; write: (text: string) => Promise<void> }>> = {
  'written in place': async (t) => {
    const path = join(t.testdir({}), 'tokens')
    return { path, write: (text) => writeFile(path, text) }
  },
  'renamed over': async (t) => {
    const path = join(t.testdir({}), 'tokens')
    return {
      path,
      async write(text) {
        await writeFile(`${path}.new`, text)
        await rename(`${path}.new`, path)
      }
    }
  },
  'swapped by a link': async (t) => {
    const directory = t.testdir({})
    let version = 0
    await symlink(join('..data', 'tokens'), join(directory, 'tokens'))
    return {
      path: join(directory, 'tokens'),
      async write(text) {
        const name = `..${++version}`
        await mkdir(join(directory, name))
        await writeFile(join(directory, name, 'tokens'), text)
        await symlink(name, join(directory, '..new'))
        await rename(join(directory, '..new'), join(directory, '..data'))
      }
    }
  }
}

for (const [way, prepare] of Object.entries(ways)) {
  t.test(`a file that is ${way} 40 times under load costs no valid token a request`, async (t) => {
    const { path, write } = await prepare(t)
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
}
