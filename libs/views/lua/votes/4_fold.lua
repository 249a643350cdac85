-- The fold, the judge of every vote: libs/tally/tallies.py says the same in Python.

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
