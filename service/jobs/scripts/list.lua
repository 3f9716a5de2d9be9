-- One page of the job list. ARGV: scope (owner or *), kinds, states (comma separated), id to start after or '',
-- order (asc | desc), limit.
-- Answer: {{field, value, …}, …} in the order of the ids.
local scope, after, descending, limit = ARGV[1], ARGV[4], ARGV[5] == 'desc', tonumber(ARGV[6])
local from, to = after ~= '' and '(' .. after or '-', '+'
if descending then
  from, to = after ~= '' and '(' .. after or '+', '-'
end
local ids = {}
for kind in string.gmatch(ARGV[2], '[^,]+') do
  for state in string.gmatch(ARGV[3], '[^,]+') do
    local key = PREFIX .. 'jobs:' .. scope .. ':' .. kind .. ':' .. state
    local command = descending and { 'ZRANGE', key, from, to, 'BYLEX', 'REV', 'LIMIT', 0, limit }
      or { 'ZRANGE', key, from, to, 'BYLEX', 'LIMIT', 0, limit }
    for _, id in ipairs(redis.call(unpack(command))) do
      ids[#ids + 1] = id
    end
  end
end
table.sort(ids, function(a, b)
  if descending then
    a, b = b, a
  end
  return a < b
end)
local answer = {}
for i = 1, math.min(limit, #ids) do
  answer[i] = redis.call('HGETALL', key_of(ids[i]))
end
return answer
