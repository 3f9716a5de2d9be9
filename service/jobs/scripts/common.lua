-- Shared by every script of the job model; the loader puts this text in front of each.
--
-- gradmill:job:{id}                         hash    the record; `attempt` is the fencing token
-- gradmill:job:{id}:events                  stream  entry <seq>-0: type, time (ms), attempt, data (JSON)
-- gradmill:job:{id}:checkpoints             hash    step -> manifest (JSON)
-- gradmill:job:{id}:segments                list    JSON {first, last, blob}, in order of `first`
-- gradmill:jobs:{scope}:{kind}:{state}      zset    ids, all with score 0, so in order of creation; scope is an owner or *
-- gradmill:labelled:{scope}:{label}         zset    ids of listed jobs with this name or entry of the metadata, score 0
-- gradmill:queue:{lane}                     zset    queued ids in order of priority, then arrival
-- gradmill:queue:{lane}:{priority}          zset    owners with something queued, least recently served first
-- gradmill:queue:{lane}:{priority}:{owner}  zset    queued ids by arrival
-- gradmill:work                             hash    lane -> estimated run time of all that is queued there (ms)
-- gradmill:served:{lane}                    hash    owner -> ordinal of its last claim
-- gradmill:leases                           zset    running ids by the end of their lease (ms)
-- gradmill:usage:{owner}                    hash    state -> number of jobs that are not terminal; bytes -> of uploads
--                                                   and checkpoints
-- gradmill:counts                           hash    ended:{kind}:{state}, lost:{code} -> how often since the beginning
-- gradmill:changes                          stream  capped: state changes of all jobs that are listed
-- gradmill:workers, gradmill:workers:{lane} hash, zset   name -> description; name by last heartbeat (ms)
-- gradmill:claim:{worker}                   hash    nonce, job, token of the worker's last claim

local PREFIX = 'gradmill:'
local TERMINAL = { succeeded = true, failed = true, cancelled = true }
local LIVE_MS = 15000          -- a worker is live when its last heartbeat is younger
local EPHEMERAL_S = 600        -- what is left of an ephemeral job after its end
local LEASES_READ = 100        -- running jobs that an expected start takes into account
local CHANGES_KEPT = 10000
local ATTEMPTS_KEPT = 50
local CLAIM_KEPT_S = 86400     -- since the worker's last call
local LOWEST, HIGHEST = -10, 10  -- priorities
local PRIORITY_SPAN = 2 ^ 44   -- more than there will ever be arrivals

local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function key_of(id)
  return PREFIX .. 'job:' .. id
end

local FIELDS = { 'state', 'kind', 'owner', 'lane', 'priority', 'ephemeral', 'attempt', 'failures', 'max_attempts',
  'arrival', 'worker', 'want', 'lease_ms', 'running_since', 'ran_ms', 'appended', 'finished_by', 'released', 'most_running', 'bytes',
  'estimate_ms' }

-- The fields that guards and transitions read, or nil for an unknown id.
local function load(id)
  local values = redis.call('HMGET', key_of(id), unpack(FIELDS))
  if not values[1] then
    return nil
  end
  local job = { id = id }
  for i, field in ipairs(FIELDS) do
    job[field] = values[i] or ''
  end
  return job
end

local function emit(job, type, data, at)
  local seq = redis.call('HINCRBY', key_of(job.id), 'seq', 1)
  redis.call('XADD', key_of(job.id) .. ':events', seq .. '-0',
    'type', type, 'time', at, 'attempt', job.attempt, 'data', data)
  return seq
end

-- The label under which jobs with a name ('' as key) or an entry of the metadata are listed.
local function labelled_key(scope, key, value)
  return PREFIX .. 'labelled:' .. scope .. ':' .. cjson.encode({ key, value })
end

-- Adds a job to the lists of its labels, or takes it off (command ZADD or ZREM).
local function label(job, command)
  local stored = redis.call('HMGET', key_of(job.id), 'name', 'metadata')
  local labels = cjson.decode(stored[2] or '{}')
  labels[''] = stored[1] ~= '' and stored[1] or nil
  for key, value in pairs(labels) do
    for _, scope in ipairs({ '*', job.owner }) do
      if command == 'ZADD' then
        redis.call('ZADD', labelled_key(scope, key, value), 0, job.id)
      else
        redis.call('ZREM', labelled_key(scope, key, value), job.id)
      end
    end
  end
end

local function index_key(scope, job, state)
  return PREFIX .. 'jobs:' .. scope .. ':' .. job.kind .. ':' .. state
end

-- What operators watch: never reset.
local function tally(what)
  redis.call('HINCRBY', PREFIX .. 'counts', what, 1)
end

-- Adds to the bytes that an owner has stored.
local function charge(owner, bytes)
  if bytes ~= 0 then
    redis.call('HINCRBY', PREFIX .. 'usage:' .. owner, 'bytes', string.format('%.0f', bytes))
  end
end

local function used_bytes(owner)
  return tonumber(redis.call('HGET', PREFIX .. 'usage:' .. owner, 'bytes') or 0)
end

-- What an owner has now, as answers tell it: jobs queued, jobs running, bytes stored.
local function usage_of(owner)
  local usage = redis.call('HMGET', PREFIX .. 'usage:' .. owner, 'queued', 'running', 'cancelling', 'bytes')
  for i = 1, 4 do
    usage[i] = tonumber(usage[i]) or 0
  end
  return usage[1], usage[2] + usage[3], usage[4]
end

-- Puts the bytes of what a job's checkpoints hold now on its owner's account.
local function settle(job)
  local total = 0
  for _, entry in ipairs(redis.call('HVALS', key_of(job.id) .. ':checkpoints')) do
    local manifest = cjson.decode(entry)
    for part, bytes in pairs(manifest.bytes or {}) do
      total = total + (manifest[part] and bytes or 0)
    end
  end
  charge(job.owner, total - (tonumber(job.bytes) or 0))
  redis.call('HSET', key_of(job.id), 'bytes', string.format('%.0f', total))
end

local function count(job, state, by)
  if not TERMINAL[state] then
    redis.call('HINCRBY', PREFIX .. 'usage:' .. job.owner, state, by)
  end
end

-- Tells those who follow the list of all jobs.
local function tell(job, state, seq, at)
  redis.call('XADD', PREFIX .. 'changes', 'MAXLEN', CHANGES_KEPT, '*', 'job', job.id, 'kind', job.kind,
    'owner', job.owner, 'state', state, 'seq', seq, 'time', at)
end

-- Moves a job to a state (from '' when it is new): record, indexes, usage, event and change log.
-- `detail` is a table with the event's further members.
local function move(job, state, detail, at)
  local previous = job.state
  job.state = state
  redis.call('HSET', key_of(job.id), 'state', state)
  if previous ~= '' then
    count(job, previous, -1)
  end
  count(job, state, 1)
  detail.state = state
  local seq = emit(job, 'state', cjson.encode(detail), at)
  if TERMINAL[state] then
    tally('ended:' .. job.kind .. ':' .. state)
    redis.call('HSET', key_of(job.id), 'ended_at', at)
  end
  if job.ephemeral == '1' then
    return
  end
  for _, scope in ipairs({ '*', job.owner }) do
    if previous ~= '' then
      redis.call('ZREM', index_key(scope, job, previous), job.id)
    end
    redis.call('ZADD', index_key(scope, job, state), 0, job.id)
  end
  tell(job, state, seq, at)
end

-- Lets an ephemeral job that has ended disappear. Called last, when every key of the job is written.
local function expire(job)
  if job.ephemeral == '1' and TERMINAL[job.state] then
    for _, part in ipairs({ '', ':events', ':checkpoints', ':segments' }) do
      redis.call('EXPIRE', key_of(job.id) .. part, EPHEMERAL_S)
    end
  end
end

local function queue_keys(job)
  local lane = PREFIX .. 'queue:' .. job.lane
  local level = lane .. ':' .. job.priority
  return lane, level, level .. ':' .. job.owner
end

local function enqueue(job)
  local lane, level, own = queue_keys(job)
  redis.call('ZADD', lane, job.arrival - job.priority * PRIORITY_SPAN, job.id)
  redis.call('ZADD', own, job.arrival, job.id)
  local served = redis.call('HGET', PREFIX .. 'served:' .. job.lane, job.owner)
  redis.call('ZADD', level, served or 0, job.owner)
  redis.call('HINCRBY', PREFIX .. 'work', job.lane, tonumber(job.estimate_ms) or 0)
end

local function dequeue(job)
  local lane, level, own = queue_keys(job)
  redis.call('ZREM', lane, job.id)
  redis.call('ZREM', own, job.id)
  if redis.call('EXISTS', own) == 0 then
    redis.call('ZREM', level, job.owner)
  end
  if redis.call('EXISTS', lane) == 0 then
    redis.call('HDEL', PREFIX .. 'work', job.lane)
  else
    redis.call('HINCRBY', PREFIX .. 'work', job.lane, 0 - (tonumber(job.estimate_ms) or 0))  -- no -0
  end
end

local function live_workers(lane, at)
  return redis.call('ZCOUNT', PREFIX .. 'workers:' .. lane, at - LIVE_MS, '+inf')
end

-- Which claim from now on will take a queued job, as things stand: higher priorities go first, then owners take
-- turns. 0 when it isn't queued.
local function place_of(job)
  local lane, level, own = queue_keys(job)
  local turn = redis.call('ZRANK', own, job.id)
  if not turn then
    return 0
  end
  local higher = string.format('(%.17g', -job.priority * PRIORITY_SPAN)
  local place, is_later = redis.call('ZCOUNT', lane, '-inf', higher) + turn + 1, false
  for _, owner in ipairs(redis.call('ZRANGE', level, 0, -1)) do
    if owner == job.owner then
      is_later = true
    else
      place = place + math.min(redis.call('ZCARD', level .. ':' .. owner), is_later and turn or turn + 1)
    end
  end
  return place
end

local RUNNING = {}

-- How many jobs run in a lane, and the time that they still take (ms) if estimates hold; read once a call.
local function running_in(lane, at)
  local found = RUNNING[lane]
  if not found then
    found = { jobs = 0, left = 0 }
    for _, id in ipairs(redis.call('ZRANGE', PREFIX .. 'leases', 0, LEASES_READ - 1)) do
      local other = redis.call('HMGET', key_of(id), 'lane', 'running_since', 'estimate_ms')
      if other[1] == lane then
        found.jobs = found.jobs + 1
        found.left = found.left + math.max(0, other[2] + (tonumber(other[3]) or 0) - at)
      end
    end
    RUNNING[lane] = found
  end
  return found
end

-- When the job in this place will start (ms) if estimates hold; 0 when it isn't queued or no worker lives.
local function start_of(job, place, at)
  local workers = live_workers(job.lane, at)
  if place == 0 or workers == 0 then
    return 0
  end
  local running = running_in(job.lane, at)
  if place + running.jobs <= workers then
    return at
  end
  local work = tonumber(redis.call('HGET', PREFIX .. 'work', job.lane) or 0)
  local queued = redis.call('ZCARD', PREFIX .. 'queue:' .. job.lane)
  return at + math.floor((running.left + (place - 1) * work / queued) / workers)
end

-- How many tickets the lane lacks: min(queued, 2 x live workers) less those that wait in RQ's list.
local function missing_tickets(lane, at)
  local wanted = math.min(redis.call('ZCARD', PREFIX .. 'queue:' .. lane), 2 * live_workers(lane, at))
  return math.max(0, wanted - redis.call('LLEN', PREFIX .. 'rq:queue:' .. lane))
end

-- Whether `token` is the attempt that may still write.
local function is_current(job, token)
  return job and job.attempt == token and (job.state == 'running' or job.state == 'cancelling')
end

-- The attempt is alive: its lease starts again, and its claim is remembered.
local function renew(job, at)
  redis.call('ZADD', PREFIX .. 'leases', at + job.lease_ms, job.id)
  redis.call('EXPIRE', PREFIX .. 'claim:' .. job.worker, CLAIM_KEPT_S)
end

-- What the attempt must do next.
local function verb(job)
  if job.state == 'cancelling' then
    return 'cancel'
  end
  return job.want == 'pause' and 'pause' or 'go'
end

-- Ends the running attempt: the lease, its entry in `attempts`, the time it ran.
local function end_attempt(job, outcome, at)
  redis.call('ZREM', PREFIX .. 'leases', job.id)
  local key = key_of(job.id)
  local attempts = cjson.decode(redis.call('HGET', key, 'attempts'))
  local last = attempts[#attempts]
  last.ended_at = at
  last.outcome = outcome
  redis.call('HSET', key, 'attempts', cjson.encode(attempts), 'worker', '', 'want', '',
    'ran_ms', (tonumber(job.ran_ms) or 0) + at - job.running_since)
  job.want = ''
end

local function fail(job, code, message, at)
  redis.call('HSET', key_of(job.id), 'error', cjson.encode({ code = code, message = message }))
  move(job, 'failed', { code = code, message = message }, at)
end

-- A lost or crashed attempt: another one while any is left.
local function lose(job, code, message, at)
  local pausing = job.want == 'pause'
  end_attempt(job, code, at)
  tally('lost:' .. code)
  local failures = redis.call('HINCRBY', key_of(job.id), 'failures', 1)
  if job.state == 'cancelling' then
    move(job, 'cancelled', { reason = code }, at)
  elseif failures >= tonumber(job.max_attempts) then
    fail(job, code, message, at)
  elseif pausing then
    move(job, 'paused', { reason = code, message = message }, at)
  else
    move(job, 'queued', { reason = code, message = message }, at)
    enqueue(job)
  end
  expire(job)
end

-- Appends the worker's events ARGV[from], ARGV[from + 1] = type, data, …; `first` counts those sent before
-- in this attempt, so that what a lost reply made the worker send again is skipped.
local function append_events(job, first, from, at)
  local appended = tonumber(job.appended) or 0
  if first > appended then
    return false
  end
  for i = from + 2 * (appended - first), #ARGV - 1, 2 do
    local type, data = ARGV[i], ARGV[i + 1]
    emit(job, type, data, at)
    appended = appended + 1
    if type == 'progress' then
      redis.call('HSET', key_of(job.id), 'progress', data)
    end
  end
  redis.call('HSET', key_of(job.id), 'appended', appended)
  job.appended = appended
  return true
end
