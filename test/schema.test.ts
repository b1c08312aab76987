/** Promise 18: a plant that waits holds its fields alone, so that its bytes are counted. */
import t from 'tap'
import { createJsonReader } from '../src/http/json.ts'
import { dropUnknown, NewPlant } from '../src/plants/schema.ts'

t.test(
  'a plant that waits has no member but its fields, whatever the others are called',
  async (t) => {
    const others = ['x', '', '__proto__', 'constructor', 'hasOwnProperty', 'toString', 'valueOf']
    const members = others.map((name) => `${JSON.stringify(name)}:"much"`)
    const body = createJsonReader(NewPlant)(`{"id":1,${members.join()},"name":"n"}`) as object
    dropUnknown(NewPlant, body)
    t.strictSame(Object.getOwnPropertyNames(body), ['id', 'name'])
  }
)
