-- What a worker holds right now. ARGV: worker. Answer: false or {id, token, state, verb}.
local held = redis.call('HMGET', PREFIX .. 'claim:' .. ARGV[1], 'job', 'token')
local job = held[1] and load(held[1])
if not is_current(job, held[2]) or job.worker ~= ARGV[1] then
  return false
end
return { job.id, tonumber(held[2]), job.state, verb(job) }
