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

-- ---------------------------------------------------------------------------------------------- reservations

local P_DIGEST, P_CONTENT, P_PARTICIPANT, P_SOURCE, P_COUNT, P_AT, P_REMAINING_P, P_REMAINING_C, P_EPOCH, P_NEXT,
  P_ATTEMPTS, P_CONFIG, P_MAX_P, P_MAX_C = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14

local function pending_field(contest, voter) return contest .. '\0' .. voter end

-- the fields of a hash, read at once
local function read_fields(key, fields)
  local found = {}
  if #fields > 0 then
    local values = call('HMGET', key, unpack(fields))
    for i = 1, #fields do found[fields[i]] = values[i] or nil end
  end
  return found
end

-- the reservations that one call is about: read at once, and written at once by close
local function open_pending(base, fields)
  local packed = read_fields(base .. ':pending', fields)
  local lists, changed, added, dropped = {}, {}, {}, {}
  local book = {}

  function book.list(field)
    if not lists[field] then lists[field] = packed[field] and unpack_one(packed[field]) or {} end
    return lists[field]
  end

  function book.touch(field) changed[field] = true end

  function book.add(field, p)
    local list = book.list(field)
    list[#list + 1] = p
    added[#added + 1] = string.format('%.0f', p[P_AT])
    added[#added + 1] = field .. '\0' .. p[P_DIGEST]
    changed[field] = true
  end

  -- with one_attempt, only when no other attempt to record it is left
  function book.drop(field, digest, one_attempt)
    local list = book.list(field)
    for i = 1, #list do
      if list[i][P_DIGEST] == digest then
        changed[field] = true
        if one_attempt and list[i][P_ATTEMPTS] > 1 then
          list[i][P_ATTEMPTS] = list[i][P_ATTEMPTS] - 1
          return 0
        end
        table.remove(list, i)
        dropped[#dropped + 1] = field .. '\0' .. digest
        return 1
      end
    end
    return 0
  end

  function book.close()
    local kept, gone = {}, {}
    for field in pairs(changed) do
      if #lists[field] == 0 then
        gone[#gone + 1] = field
      else
        kept[#kept + 1] = field
        kept[#kept + 1] = pack(lists[field])
      end
    end
    if #gone > 0 then call('HDEL', base .. ':pending', unpack(gone)) end
    if #kept > 0 then call('HSET', base .. ':pending', unpack(kept)) end
    if #dropped > 0 then call('ZREM', base .. ':due', unpack(dropped)) end
    if #added > 0 then call('ZADD', base .. ':due', unpack(added)) end
  end

  return book
end

local R_RESERVED, R_JOINED, R_KNOWN, R_REUSED, R_SHUT, R_STALE, R_NOT_RUNNING, R_REFUSED, R_PARTICIPANT_LIMIT,
  R_CONTEST_LIMIT = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9

-- every attempt records the same: also the configuration and limits by which the first one was admitted
local function granted(kind, n, p)
  return { kind, p[P_AT], n, p[P_REMAINING_P], p[P_REMAINING_C], p[P_NEXT], p[P_EPOCH], p[P_CONFIG], p[P_MAX_P],
    p[P_MAX_C] }
end

-- what reserve reads of one contest: its voters, the configuration in force, the indexes of its participants
local function contest_view(base, views, contest, voters)
  local c = { voters = read_fields(views .. ':voters:' .. contest, voters), indexes = {} }
  c.in_force = tonumber(call('HGET', base .. ':config', contest) or UNLIMITED)
  function c.index(participant)
    if c.indexes[participant] == nil then
      local row = call('HGET', views .. ':counts:' .. contest, participant)
      c.indexes[participant] = row and unpack_one(row)[1] or false
    end
    return c.indexes[participant]
  end
  return c
end

local function reserve_one(views, gate, now, r, c, pending)
  local contest, voter, digest, content, version, from, till, refused, source, participant, count, max_p, max_c =
    r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9], r[10], r[11], r[12], r[13]
  local standing = unpack_voter(c.voters[voter])
  local record = find_record(views, contest, voter, standing, digest)
  if record then
    local _, hash, at, offset, _, _, flags, rem_p, rem_c, next_at = struct.unpack(ROW, record)
    if hash ~= content then return { R_REUSED } end
    return { R_KNOWN, at, gate.n, rem_p, rem_c, next_at, offset, math.floor(flags / 2) }
  end
  local field = pending_field(contest, voter)
  local list = pending.list(field)
  for i = 1, #list do
    local p = list[i]
    if p[P_DIGEST] == digest then
      if p[P_CONTENT] ~= content then return { R_REUSED } end
      p[P_ATTEMPTS] = p[P_ATTEMPTS] + 1
      pending.touch(field)
      return granted(R_JOINED, gate.n, p)
    end
  end
  if c.in_force ~= version then return { R_STALE, c.in_force, gate.n } end
  if from == UNLIMITED or now < from or (till ~= UNLIMITED and now >= till) then return { R_NOT_RUNNING, now } end
  if refused then return { R_REFUSED, now } end
  local epoch = 0
  local index = c.index(participant)
  local used_p = index and used(standing.sums, sum_key(epoch, index, source)) or 0
  local used_c = used(standing.sums, sum_key(epoch, 0, source))
  for i = 1, #list do
    local p = list[i]
    if p[P_SOURCE] == source and p[P_EPOCH] == epoch then
      used_c = used_c + p[P_COUNT]
      if p[P_PARTICIPANT] == participant then used_p = used_p + p[P_COUNT] end
    end
  end
  if max_p ~= UNLIMITED and used_p + count > max_p then return { R_PARTICIPANT_LIMIT, max_p, used_p, 0 } end
  if max_c ~= UNLIMITED and used_c + count > max_c then return { R_CONTEST_LIMIT, max_c, used_c, 0 } end
  local rem_p = max_p == UNLIMITED and UNLIMITED or max_p - used_p - count
  local rem_c = max_c == UNLIMITED and UNLIMITED or max_c - used_c - count
  local p = { digest, content, participant, source, count, now, rem_p, rem_c, epoch, 0, 1, version, max_p, max_c }
  pending.add(field, p)
  return granted(R_RESERVED, gate.n, p)
end

-- ARGV[1]: packed list of requests; the packed list of replies, in order. Each is decided after those before it.
redis.register_function('votes_reserve', function(keys, args)
  local base = keys[1]
  local gate = load_gate(base)
  local requests, replies = unpack_one(args[1]), {}
  if not gate.open then
    for i = 1, #requests do replies[i] = { R_SHUT } end
    return pack(replies)
  end
  local now = math.max(microseconds(), gate.clock)
  local views = view(base)
  local fields, voters, contests = {}, {}, {}
  for i = 1, #requests do
    local contest, voter = requests[i][1], requests[i][2]
    fields[i] = pending_field(contest, voter)
    voters[contest] = voters[contest] or {}
    table.insert(voters[contest], voter)
  end
  for contest, list in pairs(voters) do contests[contest] = contest_view(base, views, contest, list) end
  local pending = open_pending(base, fields)
  for i = 1, #requests do
    replies[i] = reserve_one(views, gate, now, requests[i], contests[requests[i][1]], pending)
  end
  pending.close()
  call('HSET', base .. ':gate', 'clock', string.format('%.0f', now))
  return pack(replies)
end)

-- ARGV: contest, voter, digest, incarnation. Takes back one attempt that the log definitely refused; the
-- reservation goes with its last attempt. Under another incarnation it is gone already: that one is another's.
redis.register_function('votes_release', function(keys, args)
  local gate = load_gate(keys[1])
  if not gate.open or gate.n ~= tonumber(args[4]) then return 0 end
  local field = pending_field(args[1], args[2])
  local pending = open_pending(keys[1], { field })
  local dropped = pending.drop(field, args[3], true)
  pending.close()
  return dropped
end)

-- ARGV[1]: incarnation. 1 while the gate is still open under it for this very server. A write on purpose: a
-- primary that was cut off from its replicas cannot answer it.
redis.register_function('votes_confirm', function(keys, args)
  local gate = load_gate(keys[1])
  if not gate.open or gate.n ~= tonumber(args[1]) then return 0 end
  call('HINCRBY', keys[1] .. ':gate', 'confirmed', 1)
  return 1
end)

-- ARGV: contest, version, incarnation ('' from the projector). Raises the configuration version in force.
-- A worker's word (with the incarnation it loaded under) holds only while the gate is open under the same.
-- Where none is in force, the projector's word is but a floor: one that slept may come with an old version after the
-- newer one was forgotten here, and nobody may be admitted by that.
redis.register_function('votes_raise', function(keys, args)
  local base, version = keys[1], tonumber(args[2])
  local in_force = tonumber(call('HGET', base .. ':config', args[1]) or UNLIMITED)
  local floor = tonumber(call('HGET', base .. ':floors', args[1]) or UNLIMITED)
  if args[3] ~= '' then
    local gate = load_gate(base)
    if not gate.open or gate.n ~= tonumber(args[3]) or version < floor then return 0 end
  elseif in_force == UNLIMITED then
    if version > floor then call('HSET', base .. ':floors', args[1], args[2]) end
    return 1
  end
  if version > in_force then call('HSET', base .. ':config', args[1], args[2]) end
  return 1
end)

-- ARGV[1]: the incarnation under which the caller saw doubt. Shuts the gate and returns the fence to append as
-- {incarnation, the fence that it follows, run}, the same again until any fence was folded; {'0'} when the gate has
-- been opened under another incarnation since.
redis.register_function('votes_shut', function(keys, args)
  local base = keys[1]
  local gate = load_gate(base)
  if gate.open and gate.n ~= tonumber(args[1]) then return { '0' } end
  local folded = tonumber(call('GET', view(base) .. ':fence') or 0)
  local asked = gate.asked
  if gate.asked_run ~= gate.run or gate.asked_after ~= folded then
    asked = math.max(gate.n + 1, folded + 1, asked + 1, math.floor(microseconds() / 1000))
    -- only with a new number: what the projector put in force while a fence is on its way must stay
    call('DEL', base .. ':config', base .. ':floors')
  end
  local incarnation, after = string.format('%.0f', asked), string.format('%.0f', folded)
  call('HSET', base .. ':gate', 'state', 'shut', 'asked', incarnation, 'asked_after', after, 'asked_run', gate.run)
  return { incarnation, after, gate.run }
end)

-- ---------------------------------------------------------------------------------------------- the fold

local I_CAST, I_FENCE, I_POISON = 1, 2, 3  -- any other item only moves the position

local function fold_cast(state, item)
  local offset, time, contest, voter, anonymous, digest, content, source, choices, at, n, max_p, max_c, epoch, rem_p,
    rem_c, next_at = item[2], item[3], item[4], item[5], item[6], item[7], item[8], item[9], item[10], item[11],
    item[12], item[13], item[14], item[15], item[16], item[17], item[18]
  if n ~= state.fence then
    state.stats.fenced = state.stats.fenced + 1
    return
  end
  local c = state.contest(contest)
  local standing = c.voter(voter)
  state.confirmed[#state.confirmed + 1] = { pending_field(contest, voter), digest }
  if find_record(state.views, contest, voter, standing, digest) or c.spilling[voter .. digest] then
    state.stats.duplicates = state.stats.duplicates + 1
    return
  end
  local participant, count = choices[1][1], choices[1][2]
  local row, top = c.row(participant), c.row('')
  local sums = standing.sums
  local key_p, key_c = sum_key(epoch, row[1], source), sum_key(epoch, 0, source)
  local used_p, limit_p, at_p = used(sums, key_p)
  local used_c, limit_c, at_c = used(sums, key_c)
  limit_p, limit_c = largest(limit_p, max_p), largest(limit_c, max_c)
  local status = COUNTED
  if (limit_p ~= UNLIMITED and used_p + count > limit_p) or (limit_c ~= UNLIMITED and used_c + count > limit_c) then
    status = OVERRULED
    state.stats.overruled = state.stats.overruled + 1
    top[ROW_OVERRULED] = top[ROW_OVERRULED] + 1
  else
    local in_row, in_row_source, in_source, in_contest = false, false, false, #sums > 0
    for i = 1, #sums, 3 do
      local key = sums[i]
      local its_source, its_index = key % 2, math.floor(key / 2) % 16777216
      if its_source == source then in_source = true end
      if its_index == row[1] then
        in_row = true
        if its_source == source then in_row_source = true end
      end
    end
    local base = 2 + source * 3
    row[base] = row[base] + count
    top[base] = top[base] + count
    if not in_row_source then row[base + 1] = row[base + 1] + 1; row[base + 2] = row[base + 2] + anonymous end
    if not in_row then
      row[ROW_UNIQUE] = row[ROW_UNIQUE] + 1; row[ROW_ANONYMOUS] = row[ROW_ANONYMOUS] + anonymous
    end
    if not in_source then top[base + 1] = top[base + 1] + 1; top[base + 2] = top[base + 2] + anonymous end
    if not in_contest then
      top[ROW_UNIQUE] = top[ROW_UNIQUE] + 1; top[ROW_ANONYMOUS] = top[ROW_ANONYMOUS] + anonymous
    end
    if not at_c then at_c = #sums + 1; sums[at_c] = key_c end
    sums[at_c + 1] = used_c + count; sums[at_c + 2] = limit_c
    if not at_p then at_p = #sums + 1; sums[at_p] = key_p end
    sums[at_p + 1] = used_p + count; sums[at_p + 2] = limit_p
    top[ROW_COUNTED] = top[ROW_COUNTED] + 1
  end
  top[ROW_OFFSET] = offset
  top[ROW_TIME] = math.max(top[ROW_TIME], time)
  standing.records = standing.records .. struct.pack(ROW, digest, content, at, offset, row[1], count,
    source + 2 * status, rem_p, rem_c, next_at)
  if #standing.records > INLINE * ROW_SIZE then
    local oldest = string.sub(standing.records, 1, ROW_SIZE)
    c.spilling[voter .. string.sub(oldest, 1, 12)] = oldest
    standing.records = string.sub(standing.records, ROW_SIZE + 1)
    standing.spilled = standing.spilled + 1
  end
end

-- what one apply call has read so far; nothing is written before the whole batch is folded
local function contest_state(views, contest, prefetch)
  local voters, rows = {}, {}
  local c = { voters = voters, rows = rows, spilling = {} }
  if prefetch then
    local packed = call('HMGET', views .. ':voters:' .. contest, unpack(prefetch))
    for i = 1, #prefetch do voters[prefetch[i]] = unpack_voter(packed[i]) end
  end
  function c.voter(voter)
    local standing = voters[voter]
    if not standing then
      standing = unpack_voter(call('HGET', views .. ':voters:' .. contest, voter))
      voters[voter] = standing
    end
    return standing
  end
  function c.row(participant)
    local row = rows[participant]
    if not row then
      local packed = call('HGET', views .. ':counts:' .. contest, participant)
      if packed then
        row = unpack_one(packed)
      elseif participant == '' then
        row = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
      else
        local top = c.row('')
        top[1] = top[1] + 1
        row = { top[1], 0, 0, 0, 0, 0, 0, 0, 0 }
      end
      rows[participant] = row
    end
    return row
  end
  return c
end

local function write_contest(views, contest, c)
  local voters, rows, spilled = {}, {}, {}
  for voter, s in pairs(c.voters) do
    if s.records ~= '' then
      voters[#voters + 1] = voter
      voters[#voters + 1] = pack({ s.records, s.spilled, s.sums })
    end
  end
  for participant, row in pairs(c.rows) do
    rows[#rows + 1] = participant
    rows[#rows + 1] = pack(row)
  end
  for field, record in pairs(c.spilling) do
    spilled[#spilled + 1] = field
    spilled[#spilled + 1] = record
  end
  if #voters > 0 then call('HSET', views .. ':voters:' .. contest, unpack(voters)) end
  if #rows > 0 then call('HSET', views .. ':counts:' .. contest, unpack(rows)) end
  if #spilled > 0 then call('HSET', views .. ':spill:' .. contest, unpack(spilled)) end
end

-- the fold has passed a new fence: opens the gate if it was asked for in this run, else keeps it shut, since what
-- is reserved under an older incarnation would no longer count
local function open_gate(base, n, run)
  local gate = load_gate(base)
  if gate.asked ~= n or gate.asked_run ~= gate.run or (run ~= '' and run ~= gate.run) then
    call('HSET', base .. ':gate', 'state', 'shut')
    return
  end
  call('DEL', base .. ':pending', base .. ':due')
  call('HSET', base .. ':gate', 'state', 'open', 'run', gate.run, 'n', string.format('%.0f', n))
end

-- ARGV: log id, offset expected, offset after the batch, packed list of items (at most a few hundred).
-- {1} folded or already in; {0, log id, offset} when the view stands elsewhere.
redis.register_function('votes_apply', function(keys, args)
  local base = keys[1]
  local views = view(base)
  local stored = call('HMGET', views .. ':position', 'log', 'offset')
  local log, at = stored[1] or '', tonumber(stored[2] or 0)
  local first, after = tonumber(args[2]), tonumber(args[3])
  if log ~= '' and log == args[1] and at >= after then return { 1 } end
  if at ~= first or (log ~= '' and log ~= args[1]) then return { 0, log, string.format('%.0f', at) } end

  local items = unpack_one(args[4])
  local wanted, contests = {}, {}
  for i = 1, #items do
    local item = items[i]
    if item[1] == I_CAST then
      local list = wanted[item[4]] or {}
      wanted[item[4]] = list
      list[#list + 1] = item[5]
    end
  end
  local stats = call('HMGET', views .. ':stats', 'fenced', 'duplicates', 'quarantined', 'overruled')
  local state = {
    views = views, confirmed = {}, fence = tonumber(call('GET', views .. ':fence') or 0),
    stats = { fenced = tonumber(stats[1] or 0), duplicates = tonumber(stats[2] or 0),
      quarantined = tonumber(stats[3] or 0), overruled = tonumber(stats[4] or 0) },
  }
  function state.contest(contest)
    local c = contests[contest]
    if not c then
      c = contest_state(views, contest, wanted[contest])
      contests[contest] = c
    end
    return c
  end
  local poison, opened = {}, nil
  for i = 1, #items do
    local item = items[i]
    local kind = item[1]
    if kind == I_CAST then
      fold_cast(state, item)
    elseif kind == I_FENCE then
      local n, after = item[3], item[4]
      if n > state.fence and (after == UNLIMITED or after == state.fence) then state.fence, opened = n, item end
    elseif kind == I_POISON then
      poison[#poison + 1] = string.format('%.0f', item[2])
      poison[#poison + 1] = item[3]
      state.stats.quarantined = state.stats.quarantined + 1
    end
  end

  for contest, c in pairs(contests) do write_contest(views, contest, c) end
  if opened then
    call('SET', views .. ':fence', string.format('%.0f', state.fence))
    open_gate(base, opened[3], opened[5])
  end
  local fields = {}
  for i = 1, #state.confirmed do fields[i] = state.confirmed[i][1] end
  local pending = open_pending(base, fields)
  for i = 1, #state.confirmed do pending.drop(state.confirmed[i][1], state.confirmed[i][2]) end
  pending.close()
  if #poison > 0 then call('HSET', views .. ':quarantine', unpack(poison)) end
  local s = state.stats
  call('HSET', views .. ':stats', 'fenced', s.fenced, 'duplicates', s.duplicates, 'quarantined', s.quarantined,
    'overruled', s.overruled)
  call('HSET', views .. ':position', 'log', args[1], 'offset', args[3])
  return { 1 }
end)

-- ---------------------------------------------------------------------------------------------- reads

local function read(name, callback)
  redis.register_function({ function_name = name, callback = callback, flags = { 'no-writes' } })
end

local function position(views)
  local p = call('HMGET', views .. ':position', 'log', 'offset')
  return p[1] or '', tonumber(p[2] or 0)
end

-- The gate, the position and what is in doubt: {log, offset, open, n, now (us), fence, reservations pending, oldest
-- of them (us, 0: none), fenced, duplicates, quarantined, overruled}.
read('votes_state', function(keys)
  local base = keys[1]
  local views, gate = view(base), load_gate(base)
  local log, offset = position(views)
  local oldest = call('ZRANGE', base .. ':due', 0, 0, 'WITHSCORES')
  local stats = call('HMGET', views .. ':stats', 'fenced', 'duplicates', 'quarantined', 'overruled')
  return pack({ log, offset, gate.open and 1 or 0, gate.n, microseconds(), tonumber(call('GET', views .. ':fence') or 0),
    call('ZCARD', base .. ':due'), tonumber(oldest[2] or 0), tonumber(stats[1] or 0), tonumber(stats[2] or 0),
    tonumber(stats[3] or 0), tonumber(stats[4] or 0) })
end)

-- KEYS[2..]: nothing; ARGV: contest, offset of the last change that the caller holds (-1: none).
-- {log, offset, last change, rows}: rows as {participant, row} pairs, or 0 when nothing changed since.
read('votes_counts', function(keys, args)
  local views = view(keys[1])
  local log, offset = position(views)
  local top = call('HGET', views .. ':counts:' .. args[1], '')
  local changed = top and unpack_one(top)[ROW_OFFSET] or UNLIMITED
  if changed == tonumber(args[2]) then return pack({ log, offset, changed, 0 }) end
  local flat, rows = call('HGETALL', views .. ':counts:' .. args[1]), {}
  for i = 1, #flat, 2 do rows[#rows + 1] = { flat[i], unpack_one(flat[i + 1]) } end
  return pack({ log, offset, changed, rows })
end)

local function participants_by_index(views, contest)
  local names, flat = { [0] = '' }, call('HGETALL', views .. ':counts:' .. contest)
  for i = 1, #flat, 2 do
    if flat[i] ~= '' then names[unpack_one(flat[i + 1])[1]] = flat[i] end
  end
  return names
end

-- ARGV: contest, voter, digest. {log, offset, open, n, state, ...}: 0 unknown; 1 pending; 2 folded, then status,
-- accepted_at, offset, participant, count, source, content hash, remaining for participant and contest,
-- next_free_vote_at.
read('votes_lookup', function(keys, args)
  local base = keys[1]
  local views, gate = view(base), load_gate(base)
  local log, offset = position(views)
  local head = { log, offset, gate.open and 1 or 0, gate.n }
  local contest, voter, digest = args[1], args[2], args[3]
  local standing = unpack_voter(call('HGET', views .. ':voters:' .. contest, voter))
  local record = find_record(views, contest, voter, standing, digest)
  if record then
    local _, content, at, where, index, count, flags, rem_p, rem_c, next_at = struct.unpack(ROW, record)
    head[5], head[6], head[7], head[8] = 2, math.floor(flags / 2), at, where
    head[9], head[10], head[11] = participants_by_index(views, contest)[index], count, flags % 2
    head[12], head[13], head[14], head[15] = content, rem_p, rem_c, next_at
    return pack(head)
  end
  head[5] = 0
  local field = pending_field(contest, voter)
  local list = open_pending(base, { field }).list(field)
  for i = 1, #list do
    if list[i][P_DIGEST] == digest then head[5], head[6] = 1, list[i][P_AT] end
  end
  return pack(head)
end)

-- ARGV: contest, voter. What the voter has used, counted and pending: {participant ('' contest), source, epoch, used}.
read('votes_allowance', function(keys, args)
  local base = keys[1]
  local views, contest, voter = view(base), args[1], args[2]
  local standing = unpack_voter(call('HGET', views .. ':voters:' .. contest, voter))
  local names, result = participants_by_index(views, contest), {}
  for i = 1, #standing.sums, 3 do
    local key = standing.sums[i]
    local rest = math.floor(key / 2)
    result[#result + 1] = { names[rest % 16777216], key % 2, math.floor(rest / 16777216), standing.sums[i + 1] }
  end
  local field = pending_field(contest, voter)
  local list = open_pending(base, { field }).list(field)
  for i = 1, #list do
    local p = list[i]
    result[#result + 1] = { p[P_PARTICIPANT], p[P_SOURCE], p[P_EPOCH], p[P_COUNT] }
    result[#result + 1] = { '', p[P_SOURCE], p[P_EPOCH], p[P_COUNT] }
  end
  return pack(result)
end)

-- ARGV: contest. Every voter of the contest: {voter, records, spilled, sums}, for comparing with another fold.
read('votes_ledger', function(keys, args)
  local views, result = view(keys[1]), {}
  local flat = call('HGETALL', views .. ':voters:' .. args[1])
  for i = 1, #flat, 2 do
    local v = unpack_one(flat[i + 1])
    result[#result + 1] = { flat[i], v[1], v[2], v[3] }
  end
  return pack(result)
end)

-- ---------------------------------------------------------------------------------------------- addresses
-- KEYS[1]: counter of one contest, participant and address, in a slot of its own; "" holds the sum. Advisory.

-- ARGV: digest, count, limit, expiry (seconds since 1970, 0: none). {1 taken, 2 had it already, 0 full; used before}
redis.register_function('address_take', function(keys, args)
  if call('HEXISTS', keys[1], args[1]) == 1 then return { 2, 0 } end
  local sum, count, limit = tonumber(call('HGET', keys[1], '') or 0), tonumber(args[2]), tonumber(args[3])
  if limit ~= UNLIMITED and sum + count > limit then return { 0, sum } end
  call('HSET', keys[1], args[1], count, '', sum + count)
  if args[4] ~= '0' then call('EXPIREAT', keys[1], args[4]) end
  return { 1, sum }
end)

-- ARGV: digest. Gives back what it took.
redis.register_function('address_give', function(keys, args)
  local count = tonumber(call('HGET', keys[1], args[1]) or 0)
  if count > 0 then
    call('HDEL', keys[1], args[1])
    call('HINCRBY', keys[1], '', -count)
  end
  return count
end)
