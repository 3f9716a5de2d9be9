-- The state of a lane. ARGV: lane.
-- Answer: {missing tickets, queued, live workers, arrival time (ms) of the oldest queued job or 0, now (ms)}.
local lane, at = ARGV[1], now()
local oldest = 0
local head = redis.call('ZRANGE', PREFIX .. 'queue:' .. lane, 0, 0)[1]
if head then
  oldest = tonumber(redis.call('HGET', key_of(head), 'created_at') or 0)
end
return { missing_tickets(lane, at), redis.call('ZCARD', PREFIX .. 'queue:' .. lane), live_workers(lane, at), oldest, at }
