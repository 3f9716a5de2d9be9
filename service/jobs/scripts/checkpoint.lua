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

-- Makes a whole checkpoint one of weights alone where those shall stay, and nothing elsewhere.
local function drop(at_step, each)
  if each.sample then
    each.optimizer, each.state = nil, nil
    redis.call('HSET', checkpoints, at_step, cjson.encode(each))
  else
    redis.call('HDEL', checkpoints, at_step)
  end
end

-- Drops what need not stay whole; the step of the best checkpoint.
local function prune()
  local entries, whole, all = redis.call('HGETALL', checkpoints), {}, {}
  for i = 1, #entries, 2 do
    local at_step, each = tonumber(entries[i]), cjson.decode(entries[i + 1])
    if each.optimizer and at_step > tonumber(step) then
      drop(at_step, each)
    elseif each.optimizer then
      whole[#whole + 1], all[at_step] = at_step, each
    end
  end
  table.sort(whole)
  local best, lowest
  for _, at_step in ipairs(whole) do
    local val_loss = all[at_step].val_loss
    if type(val_loss) == 'number' and (not best or val_loss < lowest) then
      best, lowest = at_step, val_loss
    end
  end
  for i = 1, #whole - 2 do
    if whole[i] ~= best then
      drop(whole[i], all[whole[i]])
    end
  end
  return best
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
  settle(job)
  if manifest.mixed_numerics then
    redis.call('HSET', key, 'mixed_numerics', '1')
  end
  emit(job, 'checkpoint', cjson.encode({ step = tonumber(step), best = best }), at)
end
if ARGV[5] ~= '' then
  store_segment()
end
renew(job, at)
return { verb(job) }
