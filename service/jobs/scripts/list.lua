-- One page of the job list.
-- ARGV: scope (owner or *), kinds, states (comma separated), id to start after or '', order (asc | desc), limit,
--       created after, created before (ms, both excluded, or ''), lowest and highest id that such jobs can have or '',
--       then key, value, … of labels that a job must have; the name's key is ''.
-- Answer: {{field, value, …}, …} in the order of the ids.
local scope, after, descending, limit = ARGV[1], ARGV[4], ARGV[5] == 'desc', tonumber(ARGV[6])
local created_after, created_before = tonumber(ARGV[7]), tonumber(ARGV[8])
local lowest, highest = ARGV[9], ARGV[10]
local STEP = 500  -- ids looked at together where some of them may not fit

local function split(list)
  local parts = {}
  for part in string.gmatch(list, '[^,]+') do
    parts[#parts + 1] = part
  end
  return parts
end

local kinds, states, indexes, labels = split(ARGV[2]), split(ARGV[3]), {}, {}
local listed, is_kind, is_state, rarest, least = 0, {}, {}, nil, math.huge
for _, kind in ipairs(kinds) do
  is_kind[kind] = true
  for _, state in ipairs(states) do
    is_state[state] = true
    indexes[#indexes + 1] = PREFIX .. 'jobs:' .. scope .. ':' .. kind .. ':' .. state
    listed = listed + redis.call('ZCARD', indexes[#indexes])
  end
end
for i = 11, #ARGV - 1, 2 do
  local key = labelled_key(scope, ARGV[i], ARGV[i + 1])
  labels[#labels + 1] = key
  local size = redis.call('ZCARD', key)
  if size < least then
    rarest, least = key, size
  end
end
local by_label = least < listed  -- walk through the fewest ids that can fit
local walked = by_label and { rarest } or indexes
local is_filtered = #labels > 0 or created_after or created_before

local function fits(id)
  for _, key in ipairs(labels) do
    if not redis.call('ZSCORE', key, id) then
      return false
    end
  end
  local job = redis.call('HMGET', key_of(id), 'kind', 'state', 'created_at')
  local created_at = tonumber(job[3] or 0)
  return is_kind[job[1]] and is_state[job[2]] and (not created_after or created_at > created_after)
    and (not created_before or created_at < created_before)
end

local function comes_first(a, b)
  if descending then
    a, b = b, a
  end
  return a < b
end

-- The next ids after `cursor`, at most `most`.
local function next_ids(cursor, most)
  local first = descending and highest or lowest
  local from = first ~= '' and '[' .. first or descending and '+' or '-'
  if cursor ~= '' and (first == '' or not comes_first(cursor, first)) then
    from = '(' .. cursor
  end
  local last = descending and lowest or highest
  local to = last ~= '' and '[' .. last or descending and '-' or '+'
  local ids = {}
  for _, key in ipairs(walked) do
    local command = { 'ZRANGE', key, from, to, 'BYLEX', 'LIMIT', 0, most }
    if descending then
      table.insert(command, 6, 'REV')
    end
    for _, id in ipairs(redis.call(unpack(command))) do
      ids[#ids + 1] = id
    end
  end
  table.sort(ids, comes_first)
  for i = #ids, most + 1, -1 do
    ids[i] = nil
  end
  return ids
end

local answer, cursor = {}, after
local most = is_filtered and STEP or limit
while true do
  local ids = next_ids(cursor, most)
  for _, id in ipairs(ids) do
    if not is_filtered or fits(id) then
      answer[#answer + 1] = redis.call('HGETALL', key_of(id))
      if #answer == limit then
        return answer
      end
    end
  end
  if #ids < most then
    return answer
  end
  cursor = ids[#ids]
end
