-- Lets an alias name a model, or no longer. ARGV: alias, model id, 'set' or 'drop'.
-- Answer: 1 if the alias names the model now, or did until now; 0 for an unknown model or an alias of another one.
local alias, id, command = ARGV[1], ARGV[2], ARGV[3]
local record = redis.call('GET', PREFIX .. 'model:' .. id)
if not record then
  return 0
end
local answer = command == 'set' and 1 or 0
for _, scope in ipairs({ '*', cjson.decode(record).owner or 'local' }) do
  local aliases = PREFIX .. 'aliases:' .. scope
  if command == 'set' then
    redis.call('HSET', aliases, alias, id)
  elseif redis.call('HGET', aliases, alias) == id then
    answer = redis.call('HDEL', aliases, alias)
  end
end
return answer
