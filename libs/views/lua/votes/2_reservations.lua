-- Admission: what a voter holds of an allowance between the decision and the fold of the recorded vote.

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
