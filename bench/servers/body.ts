/** What a client sends, as a server without exact ids reads it. */
export interface Body {
  id: number
  name: string
  tag?: string
}

/** Returns the plant of a body; its id is exact up to 2^53. */
export const toPlant = ({ id, ...fields }: Body) => ({ id: BigInt(id), ...fields })

/** What a body is stored by. */
export interface Repository {
  create(plant: ReturnType<typeof toPlant>, context: { caller: string }): Promise<{ release(): void }>
}
