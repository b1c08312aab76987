/**
 * Loaded before a test file: takes away what tap adds to Node and no test here needs.
 *
 * Its async hooks follow each promise, and take up to half of a file's time. They attribute an unhandled error to its test.
 * Without them it mostly ends its file, which fails.
 *
 * With source maps, Node reads one for each module of each package. Types are stripped without moving a line or a column, so
 * the traces of the tests need none.
 */
import asyncHooks from 'node:async_hooks'
import { syncBuiltinESMExports } from 'node:module'

const none = { enable: () => none, disable: () => none }

asyncHooks.createHook = () => none
syncBuiltinESMExports()
process.setSourceMapsEnabled(false)
