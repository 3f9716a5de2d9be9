-- Appends what is new of a worker's events and renews its lease.
-- ARGV: id, token, number of events this attempt sent before, then type, data, …
-- Answer: {go | cancel | pause | fenced | gap, events of this attempt so far, last seq}.
local job = load(ARGV[1])
if not is_current(job, ARGV[2]) then
  return { 'fenced', 0, 0 }
end
local at = now()
if not append_events(job, tonumber(ARGV[3]), 4, at) then
  return { 'gap', tonumber(job.appended) or 0, 0 }
end
renew(job, at)
return { verb(job), job.appended, tonumber(redis.call('HGET', key_of(job.id), 'seq')) }
