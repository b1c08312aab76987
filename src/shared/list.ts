/** A doubly linked list whose elements are its links: any element leaves it in constant time. */

/** An element. It is in one list at most; in none, it is linked to itself. */
export class Link {
  before: Link = this
  after: Link = this

  /** Leaves its list, if it is in one. An old link that kept younger ones would keep them from minor garbage collections. */
  unlink() {
    this.before.after = this.after
    this.after.before = this.before
    this.before = this.after = this
  }
}

export class List<E extends Link> {
  readonly #ends = new Link()

  get first(): E | undefined {
    const { after } = this.#ends
    return after === this.#ends ? undefined : (after as E)
  }

  /** Adds an element at the end; `unshift` at the beginning. */
  push(element: E) {
    insert(element, this.#ends.before)
  }

  unshift(element: E) {
    insert(element, this.#ends)
  }
}

function insert(element: Link, before: Link) {
  element.before = before
  element.after = before.after
  before.after.before = element
  before.after = element
}
