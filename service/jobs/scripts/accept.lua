-- Writes a new job: record, first event, indexes, queue entry.
-- ARGV: id, owner, idempotency scope or '', sha256 of the body, most jobs of this owner that may be queued or 0,
--       most bytes that it may have stored or 0, lane, kind, priority, '1' if ephemeral, then field, value, … of the record.
-- Answer: {accepted | replayed | conflict | quota | space, id or '', missing tickets, created at (ms), place in the queue,
-- expected start (ms), then what the owner has: jobs queued, jobs running, bytes stored}; 0 where there is none.
-- The id is the nonce: sent again, the first answer is given again.
local id, owner, idempotency, body = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local most_queued, most_bytes = tonumber(ARGV[5]), tonumber(ARGV[6])
local job = { id = id, owner = owner, lane = ARGV[7], kind = ARGV[8], priority = ARGV[9], ephemeral = ARGV[10],
  state = '', attempt = '0' }
local at = now()

local function accepted(created_at)
  local place = place_of(job)
  return { 'accepted', id, missing_tickets(job.lane, at), tonumber(created_at), place, start_of(job, place, at), usage_of(owner) }
end

local created_at = redis.call('HGET', key_of(id), 'created_at')
if created_at then
  return accepted(created_at)
end
if idempotency ~= '' then
  local seen = redis.call('HMGET', PREFIX .. 'idempotency:' .. idempotency, 'body', 'job')
  if seen[1] and redis.call('EXISTS', key_of(seen[2])) == 1 then  -- a deleted job is no answer
    return { seen[1] == body and 'replayed' or 'conflict', seen[2], 0, 0, 0, 0, usage_of(owner) }
  end
end
if most_queued > 0 then
  local queued = tonumber(redis.call('HGET', PREFIX .. 'usage:' .. owner, 'queued') or 0)
  if queued >= most_queued then
    return { 'quota', '', 0, 0, 0, 0, usage_of(owner) }
  end
end
if most_bytes > 0 and used_bytes(owner) >= most_bytes then
  return { 'space', '', 0, 0, 0, 0, usage_of(owner) }
end
if idempotency ~= '' then
  redis.call('HSET', PREFIX .. 'idempotency:' .. idempotency, 'body', body, 'job', id)
  redis.call('EXPIRE', PREFIX .. 'idempotency:' .. idempotency, 86400)
end
job.arrival = redis.call('INCR', PREFIX .. 'arrivals')
redis.call('HSET', key_of(id), 'id', id, 'owner', owner, 'lane', job.lane, 'kind', job.kind, 'priority', job.priority,
  'ephemeral', job.ephemeral, 'created_at', at, 'attempt', 0, 'failures', 0, 'arrival', job.arrival,
  unpack(ARGV, 11))
job.estimate_ms = redis.call('HGET', key_of(id), 'estimate_ms')
if job.ephemeral == '' then
  label(job, 'ZADD')
end
move(job, 'queued', {}, at)
enqueue(job)
return accepted(at)
