-- Ends a job for ever, with the last events of its attempt and the model it leaves behind.
-- ARGV: id, token, outcome (succeeded | failed | cancelled), result (JSON) or '', error code, error message,
--       model id or '', model record (JSON), alias or '', number of events sent before, then type, data, …
-- Answer: {the new state | already | fenced | gap | refused}. refused: `cancelled`, but nobody asked for it.
local job = load(ARGV[1])
local token, outcome, at = ARGV[2], ARGV[3], now()
if job and job.finished_by == token then
  return { 'already' }
end
if not is_current(job, token) then
  return { 'fenced' }
end
if outcome == 'cancelled' and job.state ~= 'cancelling' then
  return { 'refused' }
end
if not append_events(job, tonumber(ARGV[10]), 11, at) then
  return { 'gap' }
end
local key, model, alias = key_of(job.id), ARGV[7], ARGV[9]
redis.call('HSET', key, 'finished_by', token)
if ARGV[4] ~= '' then
  redis.call('HSET', key, 'result', ARGV[4])
end
if model ~= '' then
  redis.call('SET', PREFIX .. 'model:' .. model, ARGV[8])
  for _, scope in ipairs({ '*', job.owner }) do
    redis.call('ZADD', PREFIX .. 'models:' .. scope, 0, model)
    if alias ~= '' then
      redis.call('HSET', PREFIX .. 'aliases:' .. scope, alias, model)
    end
  end
end
end_attempt(job, outcome, at)
if outcome == 'failed' then
  fail(job, ARGV[5], ARGV[6], at)
else
  move(job, outcome, {}, at)
end
expire(job)
return { job.state }
