-- Records an uploaded file. ARGV: id, owner, bytes, most bytes that the owner may have stored or 0, record (JSON).
-- Answer: {1, or 0 when it would be more than allowed, bytes that the owner has stored}. Sent again it changes nothing.
local id, owner, bytes, most = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
if redis.call('EXISTS', PREFIX .. 'file:' .. id) == 1 then
  return { 1, used_bytes(owner) }
end
if most > 0 and used_bytes(owner) + bytes > most then
  return { 0, used_bytes(owner) }
end
redis.call('SET', PREFIX .. 'file:' .. id, ARGV[5])
for _, scope in ipairs({ '*', owner }) do
  redis.call('ZADD', PREFIX .. 'files:' .. scope, 0, id)
end
charge(owner, bytes)
return { 1, used_bytes(owner) }
