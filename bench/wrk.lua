-- wrk's script: each request is a fresh plant; the end is one line of JSON. Its arguments: a seed, a body's text before and
-- after the id, and the least and the greatest of what stands before an id's last nine digits.
local head, tail, least, greatest

function init(args)
  math.randomseed(tonumber(args[1]))
  -- All ids have one length, so the request is formatted once.
  local id = '-' .. args[5] .. '123456789'
  local request = wrk.format('POST', nil, nil, args[2] .. id .. args[3])
  local from, to = request:find(id, 1, true)
  least, greatest = tonumber(args[4]), tonumber(args[5])
  head, tail = request:sub(1, from - 1), request:sub(to + 1)
end

function request()
  local sign = math.random(2) == 1 and ' ' or '-'
  return head .. sign .. ('%d%09d'):format(math.random(least, greatest), math.random(0, 999999999)) .. tail
end

-- The service's only other status is 400; wrk counts from there on.
function done(summary, latency)
  local errors = summary.errors
  io.write(('\n{"requests":%d,"durationUs":%d,"p50Us":%d,"p99Us":%d,"refused":%d,"failed":%d}\n'):format(
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
