-- wrk's script: each request is a fresh plant; the end is one line of JSON. Its arguments are `random` and a seed, or `growing`
-- and the first id. All ids have one length, so the request is formatted once, and are below 2^53, as most of the peers round
-- others.
local head, tail, nextId

function init(args)
  if args[1] == 'growing' then nextId = tonumber(args[2]) else math.randomseed(tonumber(args[2])) end
  local request = wrk.format('POST', nil, nil, '{"id":-1000000123456789,"name":"Monstera","tag":"tropical"}')
  head, tail = request:match('^(.*)%-1000000123456789(.*)$')
end

function request()
  if nextId then
    nextId = nextId + 1
    return head .. (' %016d'):format(nextId - 1) .. tail
  end
  local sign = math.random(2) == 1 and ' ' or '-'
  return head .. sign .. ('%d%09d'):format(math.random(1000000, 9007198), math.random(0, 999999999)) .. tail
end

-- The service's only other status is 400; wrk counts from there on.
function done(summary, latency)
  local errors = summary.errors
  io.write(('\n{"plants":%d,"seconds":%f,"p50Ms":%f,"p99Ms":%f,"errors":%d}\n'):format(
    summary.requests - errors.status, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    errors.status + errors.connect + errors.read + errors.write + errors.timeout))
end
