/** One `POST /plants` of a load: what was sent, what came back, and when, by one clock of the load. */
export interface Operation {
  /** The id as its decimal digits: int64 does not fit a JavaScript number. */
  id: string
  name: string
  tag?: string
  /** The value of `Idempotency-Key`. */
  key?: string
  /** Milliseconds of the load's clock before the first byte was sent. */
  began: number
  /** Milliseconds of the load's clock after the last byte came; absent while the response is open or lost. */
  ended?: number
  /** Absent if the connection was lost, or the client gave up: the create may take effect at any later time. */
  response?: { status: number; body: { error: number; message: string } | { name: string; tag?: string } }
}

/** A row of the table when the load has ended and everything is healed. */
export interface StoredRow {
  id: string
  name: string
  tag?: string
}
