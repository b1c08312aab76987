/** What a test releases at its end. */
import type { Test } from 'tap'

/** What runs at the end of a test. */
export type Teardown = Pick<Test, 'teardown'>
