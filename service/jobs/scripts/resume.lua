-- Queues a paused job again, or withdraws a pause that its worker has not seen. ARGV: id.
-- Answer: false for an unknown id, else {state, whether the job goes on, missing tickets, lane}.
local job = load(ARGV[1])
if not job then
  return false
end
local at = now()
if job.state == 'paused' then
  move(job, 'queued', { reason = 'resumed' }, at)
  enqueue(job)
elseif job.state == 'running' and job.want == 'pause' then
  redis.call('HSET', key_of(job.id), 'want', '')
  emit(job, 'state', cjson.encode({ state = 'running', reason = 'resumed' }), at)
end
local goes_on = job.state == 'queued' or job.state == 'running'
return { job.state, goes_on and 1 or 0, missing_tickets(job.lane, at), job.lane }
