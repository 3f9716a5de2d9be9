-- Gives the lane's next job to a worker: by priority, then the least recently served owner, then age.
-- ARGV: lane, worker, nonce, lease (ms).
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
if held[1] == nonce then
  return describe(held[2], tonumber(held[3]))
end

-- Entries whose record is gone are dropped on the way, so that they never block the lane.
local function next_job()
  local queue = PREFIX .. 'queue:' .. lane
  while true do
    local head = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
    if not head[1] then
      return nil
    end
    local level = queue .. ':' .. (0 - math.floor(head[2] / PRIORITY_SPAN))
    local owner = redis.call('ZRANGE', level, 0, 0)[1]
    local own = level .. ':' .. (owner or '')
    local chosen = redis.call('ZRANGE', own, 0, 0)[1]
    local job = chosen and load(chosen)
    if job then
      return job
    end
    redis.call('ZREM', queue, chosen or head[1])
    redis.call('ZREM', own, chosen or '')
    if owner and redis.call('EXISTS', own) == 0 then
      redis.call('ZREM', level, owner)
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
for priority = -10, 10 do
  redis.call('ZADD', PREFIX .. 'queue:' .. lane .. ':' .. priority, 'XX', ordinal, job.owner)
end

local key = key_of(job.id)
local token = redis.call('HINCRBY', key, 'attempt', 1)
job.attempt = tostring(token)
local attempts = cjson.decode(redis.call('HGET', key, 'attempts') or '[]')
attempts[#attempts + 1] = { n = token, worker = worker, started_at = at }
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
