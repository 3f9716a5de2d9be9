-- Says that a worker lives. ARGV: worker, lane, description (JSON with at least `lane`).
-- Answer: missing tickets of the lane.
local at = now()
redis.call('ZADD', PREFIX .. 'workers:' .. ARGV[2], at, ARGV[1])
redis.call('HSET', PREFIX .. 'workers', ARGV[1], ARGV[3])
return missing_tickets(ARGV[2], at)
