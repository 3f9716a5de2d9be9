-- Gives the lane's next job to a worker: by priority, then the least recently served owner, then age. An owner who
-- has as many jobs running as its key allows is passed over.
-- ARGV: lane, worker, nonce, lease (ms), version of the worker's engine, of its numerics.
-- Answer: false when nothing is queued, else {id, token, time left (ms), last seq in a stored segment,
-- missing tickets, record as field, value, …}. The same worker and nonce get the same token.
local lane, worker, nonce, lease = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local function describe(id, token)
  local key = key_of(id)
  local ran = tonumber(redis.call('HGET', key, 'ran_ms') or 0)
  local timeout = tonumber(redis.call('HGET', key, 'timeout_s') or 0) * 1000
  local segment = redis.call('LINDEX', key .. ':segments', -1)
  local stored = segment and cjson.decode(segment).last or 0
  return { id, token, timeout - ran, stored, missing_tickets(lane, now()), redis.call('HGETALL', key) }
end

local claim = PREFIX .. 'claim:' .. worker
local held = redis.call('HMGET', claim, 'nonce', 'job', 'token')
if held[1] == nonce and redis.call('EXISTS', key_of(held[2])) == 1 then
  return describe(held[2], tonumber(held[3]))
end

local queue = PREFIX .. 'queue:' .. lane

-- An owner's first job of a level. Entries whose record is gone are dropped on the way.
local function first_of(level, owner)
  local own = level .. ':' .. owner
  while true do
    local chosen = redis.call('ZRANGE', own, 0, 0)[1]
    local job = chosen and load(chosen)
    if job then
      return job
    end
    redis.call('ZREM', queue, chosen or '')
    redis.call('ZREM', own, chosen or '')
    if redis.call('EXISTS', own) == 0 then
      redis.call('ZREM', level, owner)
      return nil
    end
  end
end

-- Whether as many of the owner's jobs run as the key that submitted this one allows.
local function must_wait(job)
  local most = tonumber(job.most_running) or 0
  if most == 0 then
    return false
  end
  local usage = redis.call('HMGET', PREFIX .. 'usage:' .. job.owner, 'running', 'cancelling')
  return (tonumber(usage[1]) or 0) + (tonumber(usage[2]) or 0) >= most
end

local function next_job()
  local head = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
  local highest = head[1] and 0 - math.floor(head[2] / PRIORITY_SPAN) or LOWEST - 1
  for priority = highest, LOWEST, -1 do
    local level = queue .. ':' .. priority
    for _, owner in ipairs(redis.call('ZRANGE', level, 0, -1)) do
      local job = first_of(level, owner)
      if job and not must_wait(job) then
        return job
      end
    end
  end
end

local job = next_job()
if not job then
  return false
end
local at = now()
dequeue(job)
local ordinal = redis.call('INCR', PREFIX .. 'claims')
redis.call('HSET', PREFIX .. 'served:' .. lane, job.owner, ordinal)
for priority = LOWEST, HIGHEST do
  redis.call('ZADD', PREFIX .. 'queue:' .. lane .. ':' .. priority, 'XX', ordinal, job.owner)
end

local key = key_of(job.id)
local token = redis.call('HINCRBY', key, 'attempt', 1)
job.attempt = tostring(token)
local attempts = cjson.decode(redis.call('HGET', key, 'attempts') or '[]')
attempts[#attempts + 1] = { n = token, worker = worker, started_at = at, engine_version = ARGV[5],
  numerics_version = ARGV[6] }
if #attempts > ATTEMPTS_KEPT then
  table.remove(attempts, 1)
end
redis.call('HSET', key, 'attempts', cjson.encode(attempts), 'worker', worker, 'appended', 0,
  'lease_ms', lease, 'running_since', at)
redis.call('HSETNX', key, 'started_at', at)
redis.call('HSET', claim, 'nonce', nonce, 'job', job.id, 'token', token)
job.worker, job.lease_ms = worker, lease
renew(job, at)
move(job, 'running', { worker = worker }, at)
return describe(job.id, token)
