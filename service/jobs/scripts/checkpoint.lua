-- Records a checkpoint whose blobs are stored, and the segment of events stored with it.
-- ARGV: id, token, step, manifest (JSON), segment (JSON {first, last, blob}) or '', events to keep in the stream.
-- Answer: {go | cancel | pause | fenced}. Kept: the last two whole, the best whole, and the weights of those
-- whose manifest says `sample`. An attempt that stores a step below one that is there could not restore that one:
-- it is no longer whole.
local job = load(ARGV[1])
if not is_current(job, ARGV[2]) then
  return { 'fenced' }
end
local at, step, manifest = now(), ARGV[3], cjson.decode(ARGV[4])
local key = key_of(job.id)
local checkpoints = key .. ':checkpoints'

local function lowest_loss(all)
  local best, loss
  for at_step, each in pairs(all) do
    local val_loss = type(each.val_loss) == 'number' and each.val_loss
    if val_loss and (not loss or val_loss < loss or (val_loss == loss and at_step < best)) then
      best, loss = at_step, val_loss
    end
  end
  return best
end

-- Makes a whole checkpoint one of weights alone where those shall stay, and nothing elsewhere.
local function drop(at_step, all)
  local each = all[at_step]
  if each.optimizer and each.sample then
    each.optimizer, each.state = nil, nil
    redis.call('HSET', checkpoints, at_step, cjson.encode(each))
  elseif each.optimizer then
    redis.call('HDEL', checkpoints, at_step)
    all[at_step] = nil
  end
end

local function prune()
  local entries, all, steps = redis.call('HGETALL', checkpoints), {}, {}
  for i = 1, #entries, 2 do
    local each = cjson.decode(entries[i + 1])
    all[tonumber(entries[i])] = each
    steps[#steps + 1] = tonumber(entries[i])
  end
  table.sort(steps)
  while steps[#steps] > tonumber(step) do
    drop(steps[#steps], all)
    steps[#steps] = nil
  end
  local best = lowest_loss(all)
  for i = 1, #steps - 2 do
    if steps[i] ~= best then
      drop(steps[i], all)
    end
  end
  return best
end

-- The bytes of what the job's checkpoints hold now, on its owner's account.
local function settle()
  local total, entries = 0, redis.call('HVALS', checkpoints)
  for _, entry in ipairs(entries) do
    local each = cjson.decode(entry)
    for part, bytes in pairs(each.bytes or {}) do
      total = total + (each[part] and bytes or 0)
    end
  end
  charge(job.owner, total - (tonumber(job.bytes) or 0))
  redis.call('HSET', key, 'bytes', string.format('%.0f', total))
end

local function store_segment()
  local segment = cjson.decode(ARGV[5])
  local last = redis.call('LINDEX', key .. ':segments', -1)
  local stored = last and cjson.decode(last).last or 0
  if segment.last > stored then
    redis.call('RPUSH', key .. ':segments', ARGV[5])
    stored = segment.last
  end
  local kept_from = tonumber(redis.call('HGET', key, 'seq')) - ARGV[6] + 1
  redis.call('XTRIM', key .. ':events', 'MINID', math.min(stored + 1, math.max(kept_from, 0)))
end

if redis.call('HGET', checkpoints, step) ~= ARGV[4] then
  redis.call('HSET', checkpoints, step, ARGV[4])
  local best = prune() == tonumber(step)
  settle()
  emit(job, 'checkpoint', cjson.encode({ step = tonumber(step), best = best }), at)
end
if ARGV[5] ~= '' then
  store_segment()
end
renew(job, at)
return { verb(job) }
