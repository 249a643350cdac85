-- One batch of the log into the views, or nothing of it.

local I_CAST, I_FENCE, I_POISON, I_REMOVAL, I_REPORT, I_CLOSED, I_REOPENED = 1, 2, 3, 4, 5, 6, 7
-- any other item only moves the position

local OF_CONTESTS = { [I_REPORT] = report, [I_CLOSED] = close, [I_REOPENED] = reopen }

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
    if item[1] == I_CAST or item[1] == I_REMOVAL then
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
    elseif kind == I_REMOVAL then
      fold_removal(state, item)
    elseif OF_CONTESTS[kind] then
      local c = state.contest(item[4])
      if OF_CONTESTS[kind](c, item) then
        touch(c, item[2], item[3])
      else
        state.stats.duplicates = state.stats.duplicates + 1
      end
    elseif kind == I_FENCE then
      local n, after = item[3], item[4]
      if n > state.fence and (after == UNLIMITED or after == state.fence) then state.fence, opened = n, item end
    elseif kind == I_POISON then
      poison[#poison + 1] = string.format('%.0f', item[2])
      poison[#poison + 1] = item[3]
      state.stats.quarantined = state.stats.quarantined + 1
    end
  end

  for _, c in pairs(contests) do c.write() end
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
