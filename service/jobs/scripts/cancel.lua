-- Asks for a job's end. ARGV: id. Answer: false for an unknown id, else {state, whether it changed}.
-- queued and paused -> cancelled at once; running -> cancelling, until its worker confirms.
local job = load(ARGV[1])
if not job then
  return false
end
local at = now()
if job.state == 'queued' or job.state == 'paused' then
  if job.state == 'queued' then
    dequeue(job)
  end
  move(job, 'cancelled', {}, at)
  expire(job)
  return { job.state, 1 }
end
if job.state == 'running' then
  move(job, 'cancelling', {}, at)
  return { job.state, 1 }
end
return { job.state, 0 }
