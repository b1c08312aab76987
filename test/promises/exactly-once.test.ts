/** Promises 5, 6 and 7: whatever dies under a load, acknowledged is stored, nothing is stored twice, and clients only wait. */
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { assertNoErrors } from '../support/histories/history.ts'
import { type Load, startRivals } from '../support/histories/rivals.ts'
import { query, setServer, urlOf } from '../support/postgres/database.ts'
import { freePort } from '../support/postgres/embedded-postgres.ts'
import { startProxy } from '../support/postgres/proxy.ts'
import { type Server, startPair, startServer } from '../support/postgres/server.ts'
import { failure, type Reply, replay, success } from '../support/responses.ts'
import { keyed, type Service, startService, token } from '../support/service.ts'
import { hasLength, is, until } from '../support/until.ts'

t.jobs = 2

const clients = 12
/** How many creates succeed before a fault, and after it. */
const creates = 40
/** PostgreSQL starts again well within it. */
const deadline = { WRITE_DEADLINE_MS: '60000' }

/** What a fault may use. Rivals create the same ids at both replicas; the second is behind the proxy. */
interface Scene {
  server: Server
  proxy: Awaited<ReturnType<typeof startProxy>>
  replicas: [Service, Service]
  load: Load
  /** Resolves when a statement of the first replica has failed since the load began. */
  isNoticed(): Promise<unknown>
  /** Starts the first replica again. */
  restart(): Promise<unknown>
}

const terminate = `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'plant-store'`

async function endAndStart({ server, isNoticed }: Scene, signal: NodeJS.Signals) {
  await server.down(signal)
  await isNoticed()
  await server.up()
}

/** What happens in the middle of a load. */
const faults: Record<string, (scene: Scene) => Promise<unknown>> = {
  'PostgreSQL is killed, and starts again': (scene) => endAndStart(scene, 'SIGKILL'),
  'PostgreSQL is shut down at once, and starts again': (scene) => endAndStart(scene, 'SIGQUIT'),
  'PostgreSQL is shut down in order, and starts again': (scene) => endAndStart(scene, 'SIGINT'),

  async 'every session is terminated, again and again'({ server, load }) {
    for (let count = 0; count < 8; count++) {
      await query(server.url, terminate)
      await load.succeed(clients)
    }
  },

  async 'the connection is cut between a commit and its response, again and again'({ proxy }) {
    // One after the other: rows share a transaction, and one must not meet all the losses.
    for (let count = 0; count < 8; count++) {
      proxy.lose(1)
      await until('a connection is cut', proxy.left, is(0))
    }
  },

  async 'PostgreSQL is read-only for a while'({ server, isNoticed }) {
    await setServer(server.url, 'default_transaction_read_only', 'on')
    await isNoticed()
    await setServer(server.url, 'default_transaction_read_only', 'off')
  },

  // The address now leads to another server: old sessions are read-only for ever, and new ones are not.
  async 'PostgreSQL is demoted behind its address, and its sessions live on'({
    server,
    isNoticed
  }) {
    await query(server.url, 'alter database postgres set default_transaction_read_only = off')
    await setServer(urlOf(server.url, 'template1'), 'default_transaction_read_only', 'on')
    await isNoticed()
  },

  async 'PostgreSQL stands still until a statement is given up'({ server, isNoticed }) {
    const thaw = await server.freeze()
    await isNoticed()
    thaw()
  },

  async 'the service is killed, and starts again'({ replicas: [service], restart }) {
    await service.end()
    await restart()
  }
}

t.test('two replicas: clients that repeat what is lost see no error', async (t) => {
  const server = await startServer(t)
  const proxy = await startProxy(t, server.port)
  const behindProxy = server.url.replace(`:${server.port}/`, `:${proxy.port}/`)
  const env = { ...deadline, DATABASE_URL: server.url, PORT: String(await freePort()) }
  const replicas = await Promise.all([
    startService(t, env),
    startService(t, { ...deadline, DATABASE_URL: behindProxy })
  ])
  const restart = async () => {
    replicas[0] = await startService(t, env)
  }
  for (const [title, fault] of Object.entries(faults))
    await t.test(title, async (t) => {
      await query(server.url, 'truncate plants')
      const [before] = replicas
      const load = startLoad(t, replicas)
      const isNoticed = await watchFailures(replicas[0])
      await load.succeed(creates)
      await fault({ server, proxy, replicas, load, isNoticed, restart })
      await load.succeed(creates)
      await assertNoErrors(t, server.url, await load.stop(), replicas[0] !== before)
    })

  await t.test(
    'a trigger rewrites the name, and a response is lost: the service finds its own row',
    async (t) => {
      await query(server.url, 'truncate plants')
      await query(
        server.url,
        `create function rewrite() returns trigger language plpgsql as $$ begin new.name := trim(new.name); return new; end $$;
       create trigger rewrite before insert on plants for each row execute function rewrite()`
      )
      for (const [id, sent] of [undefined, keyed('key')].entries()) {
        const plant = { id, name: ' padded ' }
        proxy.lose(1)
        t.strictSame(await replicas[1].post(plant, sent), success({ name: ' padded ' }))
        t.equal(proxy.left(), 0, 'its first response was lost')
      }
      const names = await query(server.url, 'select name from plants')
      t.strictSame(names, [{ name: 'padded' }, { name: 'padded' }])
    }
  )
})

type Pair = Awaited<ReturnType<typeof startPair>>

t.test('a synchronous standby', async (t) => {
  const pair = await startPair(t)
  const env = { ...deadline, DATABASE_URL: pair.url }
  const replicas = await Promise.all([startService(t, env), startService(t, env)])
  // A setting that the operator changes for all sessions does not weaken the promise.
  await setServer(pair.primary.url, 'synchronous_commit', 'off')

  await t.test(
    'stands still: nothing is told of a row that it lacks, whichever session asks',
    (t) => proveWait(t, pair, replicas)
  )

  await t.test(
    'is promoted when the primary was killed: all is there, and clients see no error',
    async (t) => {
      await query(pair.primary.url, 'truncate plants')
      const load = startLoad(t, replicas)
      await load.succeed(creates)
      await pair.primary.down('SIGKILL')
      await pair.promote()
      await load.succeed(creates)
      await assertNoErrors(t, pair.standbyUrl, await load.stop())
    }
  )
})

async function proveWait(
  t: Test,
  { primary, standbyUrl, signalReceiver }: Pair,
  [writer, reader]: [Service, Service]
) {
  const told: Reply[] = []
  const ask = async (service: Service, id: number, name: string, key?: string) => {
    const reply = await service.post({ id, name }, key === undefined ? {} : keyed(key))
    told.push(reply)
    return reply
  }
  const untilStored = (end: string, ids: number[]) =>
    until(
      'the rows are visible, and not replicated',
      async () => {
        await query(primary.url, `select ${end}(pid) from (${waitingCommits}) as waiting`)
        return query(primary.url, 'select id from plants where id = any ($1)', [ids])
      },
      hasLength(ids.length)
    )
  await signalReceiver('SIGSTOP')
  t.teardown(() => signalReceiver('SIGCONT'))

  // A commit that is ended or cancelled while it waits for the standby is visible, and stays so.
  const ended = [1, 2, 3].map((id) => ask(writer, id, 'ours', 'key'))
  await untilStored('pg_terminate_backend', [1, 2, 3])
  const cancelled = ask(writer, 4, 'ours')
  await untilStored('pg_cancel_backend', [4])
  const found = [
    ask(reader, 1, 'ours'),
    ask(reader, 2, 'ours', 'key'),
    ask(reader, 3, 'other', 'key')
  ]
  const fresh = ask(reader, 5, 'ours')
  // What must not come would come at once.
  await sleep(2_000)
  t.strictSame(told, [], 'no response without the standby')

  await signalReceiver('SIGCONT')
  const created = success({ name: 'ours' })
  t.strictSame(await Promise.all([...ended, cancelled, fresh]), Array(5).fill(created))
  const ofReader = [failure('DuplicatePlant'), replay({ name: 'ours' }), failure('ReusedKey')]
  t.strictSame(await Promise.all(found), ofReader)
  // A commit waits until the standby has its WAL on disk. The standby applies it a moment later.
  const select = 'select id::int from plants order by id'
  const rows = await until(
    'the standby has applied them',
    () => query(standbyUrl, select),
    hasLength(5)
  )
  t.strictSame(
    rows,
    [1, 2, 3, 4, 5].map((id) => ({ id }))
  )
}

/** The service's commits that wait for a standby. */
const waitingCommits = `select pid from pg_stat_activity where application_name = 'plant-store' and wait_event = 'SyncRep'`

/** Starts rivals that repeat what is lost. Now and then they do not wait for a response. */
function startLoad(t: Test, services: Service[]): Load {
  const urls = services.map(({ url }) => url)
  const impatience = { oneIn: 20, withinMs: 100 }
  const load = startRivals({ urls, token, clients, isRepeating: true, impatience, pauseMs: 300 })
  t.teardown(() => load.stop())
  return load
}

/** Returns a wait for a statement of the service that fails from now on. */
async function watchFailures({ metrics }: Service) {
  const count = async () => {
    const { written, found, ...failed } = (await metrics()).values(
      'plant_store_batch_duration_seconds_count'
    )
    return Object.values(failed).reduce((sum, value) => sum + value, 0)
  }
  const before = await count()
  return () => until('a statement fails', count, (now) => now > before)
}
