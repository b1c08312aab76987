/**
 * Loaded before a test file: takes away tap's async hooks, which follow each promise and take up to half of a file's time.
 * They attribute an unhandled error to its test. Without them it mostly ends its file, which fails.
 */
import asyncHooks from 'node:async_hooks'
import { syncBuiltinESMExports } from 'node:module'

const none = { enable: () => none, disable: () => none }

asyncHooks.createHook = () => none
syncBuiltinESMExports()
