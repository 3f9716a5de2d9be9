-- Deletes a published model and the aliases that name it; its weights go when no job needs them.
-- ARGV: model id. Answer: 1 if it was there.
local id = ARGV[1]
local record = redis.call('GET', PREFIX .. 'model:' .. id)
if not record then
  return 0
end
for _, scope in ipairs({ '*', cjson.decode(record).owner or 'local' }) do
  redis.call('ZREM', PREFIX .. 'models:' .. scope, id)
  local aliases = redis.call('HGETALL', PREFIX .. 'aliases:' .. scope)
  for i = 1, #aliases, 2 do
    if aliases[i + 1] == id then
      redis.call('HDEL', PREFIX .. 'aliases:' .. scope, aliases[i])
    end
  end
end
return redis.call('DEL', PREFIX .. 'model:' .. id)
