#!lua name=tally_votes
-- All that belongs to one partition of the votes log, under one hash tag: KEYS[1] is its base, "<namespace>:{p}".
--   base:gate       hash  state (open|shut), run (server run and replication id), n (incarnation), asked, asked_after (the fence that
--                         it shall follow), asked_run, clock (us)
--   base:config     hash  contest -> configuration version in force
--   base:floors     hash  contest -> configuration version below which nothing may come into force, while none is
--   base:pending    hash  contest NUL voter -> packed list of reservations the fold has not confirmed
--   base:due        zset  contest NUL voter NUL digest, by accepted_at (us)
--   base:g1:...     the views of generation 1: position, fence, quarantine, stats, and per contest
--     voters:<contest>  hash  voter -> packed {records, spilled, sums}
--     spill:<contest>   hash  voter digest -> record, of voters with more than INLINE votes
--     counts:<contest>  hash  participant -> packed row; "" -> the contest's own row
-- A voter's record is ROW bytes: digest, content hash, accepted_at, offset, participant index, count, flags
-- (source + 2 * status), remaining for participant and contest (-1: no limit), next_free_vote_at (0: none).
-- sums is flat: key, used, largest limit, ...; key = ((epoch * 2^24) + participant index) * 2 + source, index 0
-- being the contest. Rows: see ROW_* below. Numbers stay below 2^53.

local ROW = '>c12c8I7I5I3I3Bi4i4I7'
local ROW_SIZE = 54
local INLINE = 8
local COUNTED, OVERRULED = 0, 1
local UNLIMITED = -1
-- a row: {index, then count, unique, anonymous of c-free, the same of c-paid, unique, anonymous over both}
local ROW_UNIQUE, ROW_ANONYMOUS = 8, 9
-- the contest's row goes on: last offset, last append time (ms), ids counted, ids overruled; its index is the last used
local ROW_OFFSET, ROW_TIME, ROW_COUNTED, ROW_OVERRULED = 10, 11, 12, 13

-- while a library is being loaded, none of these is there yet
local function call(...) return redis.call(...) end
local function pack(value) return cmsgpack.pack(value) end
local function unpack_one(packed) return cmsgpack.unpack(packed) end

local function view(base) return base .. ':g1' end

-- This very server, in this very role: a primary that failed over and comes back has its old run id, but another
-- replication id; it may have missed all that its successor did, and must not take its gate for open.
local function run_id()
  local info = call('INFO', 'server', 'replication')
  return string.match(info, 'run_id:(%w+)') .. '.' .. string.match(info, 'master_replid:(%w+)')
end

local function microseconds()
  local time = call('TIME')
  return time[1] * 1000000 + time[2]
end

local function load_gate(base)
  local v = call('HMGET', base .. ':gate', 'state', 'run', 'n', 'asked', 'asked_run', 'clock',
    'asked_after')
  local run = run_id()
  return {
    open = v[1] == 'open' and v[2] == run, run = run, n = tonumber(v[3] or 0),
    asked = tonumber(v[4] or 0), asked_run = v[5], clock = tonumber(v[6] or 0),
    asked_after = tonumber(v[7] or 0),
  }
end

local function unpack_voter(packed)
  if packed then
    local v = unpack_one(packed)
    return { records = v[1], spilled = v[2], sums = v[3] }
  end
  return { records = '', spilled = 0, sums = {} }
end

-- the record of a vote id, or nil
local function find_record(views, contest, voter, standing, digest)
  local from = 1
  while true do
    local at = string.find(standing.records, digest, from, true)
    if not at then break end
    if (at - 1) % ROW_SIZE == 0 then return string.sub(standing.records, at, at + ROW_SIZE - 1) end
    from = at + 1
  end
  if standing.spilled > 0 then
    return call('HGET', views .. ':spill:' .. contest, voter .. digest) or nil
  end
end

local function sum_key(epoch, index, source) return (epoch * 16777216 + index) * 2 + source end

local function used(sums, key)
  for i = 1, #sums, 3 do
    if sums[i] == key then return sums[i + 1], sums[i + 2], i end
  end
  return 0, nil, nil
end

local function largest(a, b)
  if a == nil then return b end
  if a == UNLIMITED or b == UNLIMITED then return UNLIMITED end
  return math.max(a, b)
end
