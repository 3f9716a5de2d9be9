-- Deletes a job that has ended. ARGV: id. Answer: false for an unknown id, else {state, 1 if deleted}.
local job = load(ARGV[1])
if not job then
  return false
end
if not TERMINAL[job.state] then
  return { job.state, 0 }
end
for _, scope in ipairs({ '*', job.owner }) do
  redis.call('ZREM', index_key(scope, job, job.state), job.id)
end
label(job, 'ZREM')
charge(job.owner, -(tonumber(job.bytes) or 0))
local key = key_of(job.id)
if job.ephemeral == '' then
  tell(job, 'deleted', redis.call('HGET', key, 'seq'), now())
end
redis.call('DEL', key, key .. ':events', key .. ':checkpoints', key .. ':segments')
return { job.state, 1 }
