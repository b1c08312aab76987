/** A doubly linked list whose elements are its links, so that any element leaves it in constant time. */

/** An element. It is in one list at most. In none, it is linked to itself. */
export class Link {
  before: Link = this
  after: Link = this

  /**
   * Leaves its list, if it is in one. It refers to no other link afterwards: V8's minor garbage collections keep whatever an
   * old object refers to, even if that object is garbage itself.
   */
  unlink() {
    this.before.after = this.after
    this.after.before = this.before
    this.before = this.after = this
  }
}

/** A list, empty at first. */
export class List<E extends Link> {
  /** A link before the first element and after the last one. */
  readonly #ends = new Link()

  get first(): E | undefined {
    const { after } = this.#ends
    return after === this.#ends ? undefined : (after as E)
  }

  /** Adds an element, which is in no list, at the end. */
  push(element: E) {
    insertAfter(this.#ends.before, element)
  }

  /** Adds an element, which is in no list, at the beginning. */
  unshift(element: E) {
    insertAfter(this.#ends, element)
  }
}

function insertAfter(before: Link, element: Link) {
  element.before = before
  element.after = before.after
  before.after.before = element
  before.after = element
}
