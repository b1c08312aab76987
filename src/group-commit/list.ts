/** A doubly linked list: unlike an array, it removes any element in constant time. */

/** An element's place in a list. */
export interface Place<E> {
  readonly element: E
  readonly list: List<E>
  before: Place<E> | undefined
  after: Place<E> | undefined
}

export class List<E> {
  #first: Place<E> | undefined = undefined
  #last: Place<E> | undefined = undefined
  /** The number of elements. */
  length = 0

  /** The place of the first element, or undefined. */
  get begin(): Place<E> | undefined {
    return this.#first
  }

  /** The first element, or undefined. */
  get first(): E | undefined {
    return this.#first?.element
  }

  /** Adds an element at the end, and returns its place. */
  push(element: E): Place<E> {
    const place: Place<E> = { element, list: this, before: this.#last, after: undefined }
    if (this.#last) this.#last.after = place
    else this.#first = place
    this.#last = place
    this.length++
    return place
  }

  /** Adds an element at the beginning, and returns its place. */
  unshift(element: E): Place<E> {
    const place: Place<E> = { element, list: this, before: undefined, after: this.#first }
    if (this.#first) this.#first.before = place
    else this.#last = place
    this.#first = place
    this.length++
    return place
  }

  /** Removes an element; call it once. */
  remove(place: Place<E>) {
    const { before, after } = place
    if (before) before.after = after
    else this.#first = after
    if (after) after.before = before
    else this.#last = before
    this.length--
    // A removed place in the old generation would keep younger ones, which it refers to, from minor garbage collections.
    place.before = place.after = undefined
  }
}
