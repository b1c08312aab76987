/** What coverage is asked of: the service. The tools in dev/ have branches for other machines than this one. */
import { globSync } from 'node:fs'

const sources = globSync('src/**/*.ts')

/** Tells tap which files a test is to cover; all of them together must cover every source. */
export default () => sources
