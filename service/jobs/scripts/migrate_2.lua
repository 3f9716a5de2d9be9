-- Brings jobs and files of schema 1 up to schema 2: labels, estimates in ms, the bytes that owners have stored.
-- ARGV: ids of jobs and files. Answer: how many were brought up; what already was is left alone.
local DONE = PREFIX .. 'migrated:2'
local brought = 0

local function bring_job(job)
  local key = key_of(job.id)
  local estimate = cjson.decode(redis.call('HGET', key, 'estimate') or '{}')
  local ms = math.floor(1000 * (tonumber(estimate.seconds) or 0) + 0.5)
  redis.call('HSET', key, 'estimate_ms', ms)
  if job.ephemeral ~= '1' then
    label(job, 'ZADD')
  end
  if job.state == 'queued' then
    redis.call('HINCRBY', PREFIX .. 'work', job.lane, ms)
  end
  settle(job)
end

for _, id in ipairs(ARGV) do
  local job = load(id)
  local file = redis.call('GET', PREFIX .. 'file:' .. id)
  if (job or file) and redis.call('SADD', DONE, id) == 1 then
    brought = brought + 1
    if job then
      bring_job(job)
    else
      file = cjson.decode(file)
      charge(file.owner, file.bytes)
    end
  end
end
return brought
