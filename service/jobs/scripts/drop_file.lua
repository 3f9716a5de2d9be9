-- Forgets an uploaded file. ARGV: id. Answer: 1 if it was there.
local record = redis.call('GET', PREFIX .. 'file:' .. ARGV[1])
if not record then
  return 0
end
local file = cjson.decode(record)
redis.call('DEL', PREFIX .. 'file:' .. ARGV[1])
for _, scope in ipairs({ '*', file.owner }) do
  redis.call('ZREM', PREFIX .. 'files:' .. scope, ARGV[1])
end
charge(file.owner, -file.bytes)
return 1
