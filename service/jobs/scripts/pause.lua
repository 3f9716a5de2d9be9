-- Asks a job to stop at its next checkpoint. ARGV: id. Answer: false for an unknown id, else {state, whether the
-- wish holds}. queued -> paused at once; running stays running until its worker releases it.
local job = load(ARGV[1])
if not job then
  return false
end
local at = now()
if job.state == 'queued' then
  dequeue(job)
  move(job, 'paused', {}, at)
elseif job.state == 'running' and job.want ~= 'pause' then
  redis.call('HSET', key_of(job.id), 'want', 'pause')
  emit(job, 'state', cjson.encode({ state = 'running', reason = 'pausing' }), at)
end
return { job.state, (job.state == 'paused' or job.state == 'running') and 1 or 0 }
