-- Takes jobs back whose lease is over, and forgets workers that left without a word.
-- ARGV: most jobs to handle in this call. Answer: {id, new state, id, new state, …}.
local at, answer = now(), {}
for _, id in ipairs(redis.call('ZRANGE', PREFIX .. 'leases', '-inf', at, 'BYSCORE', 'LIMIT', 0, ARGV[1])) do
  local job = load(id)
  if is_current(job, job and job.attempt) then
    lose(job, 'worker-lost', 'The worker stopped answering.', at)
    answer[#answer + 1] = id
    answer[#answer + 1] = job.state
  else
    redis.call('ZREM', PREFIX .. 'leases', id)
  end
end
local workers = redis.call('HGETALL', PREFIX .. 'workers')
for i = 1, #workers, 2 do
  local lane = PREFIX .. 'workers:' .. cjson.decode(workers[i + 1]).lane
  local seen = tonumber(redis.call('ZSCORE', lane, workers[i]) or 0)
  if seen < at - 4 * LIVE_MS then
    redis.call('ZREM', lane, workers[i])
    redis.call('HDEL', PREFIX .. 'workers', workers[i])
  end
end
return answer
