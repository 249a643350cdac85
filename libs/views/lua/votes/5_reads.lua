-- Reads; each names the position at which it is so.

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
