-- Gives a running job back without an outcome.
-- ARGV: id, token, reason (shutdown | pause | crash), code, message.
-- Answer: {the new state | already | fenced, missing tickets of the job's lane, lane}.
-- shutdown -> queued, or paused where that was asked for; pause -> paused; crash -> as a lost attempt;
-- while cancelling -> cancelled.
local job = load(ARGV[1])
local token, reason, at = ARGV[2], ARGV[3], now()
if job and job.released == token then
  return { 'already', 0, job.lane }
end
if not is_current(job, token) then
  return { 'fenced', 0, '' }
end
redis.call('HSET', key_of(job.id), 'released', token)
if reason == 'crash' then
  lose(job, ARGV[4], ARGV[5], at)
else
  local pausing = reason == 'pause' or job.want == 'pause'  -- a shutdown may come before the wish is heard
  end_attempt(job, reason, at)
  if job.state == 'cancelling' then
    move(job, 'cancelled', { reason = reason }, at)
  elseif pausing then
    move(job, 'paused', {}, at)
  else
    move(job, 'queued', { reason = reason }, at)
    enqueue(job)
  end
  expire(job)
end
return { job.state, missing_tickets(job.lane, at), job.lane }
