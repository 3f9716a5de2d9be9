-- Takes a worker off the list. ARGV: worker, lane. Answer: 1 if it was on it.
redis.call('ZREM', PREFIX .. 'workers:' .. ARGV[2], ARGV[1])
return redis.call('HDEL', PREFIX .. 'workers', ARGV[1])
