-- Folds one batch of the log into the views of a generation.

local I_CAST, I_FENCE, I_POISON, I_REMOVAL, I_REPORT, I_CLOSED, I_REOPENED, I_VOIDED = 1, 2, 3, 4, 5, 6, 7, 8
-- any other item only moves the position; all have their offset second, their time third, and most their contest fourth

local OF_CONTESTS = { [I_REPORT] = report, [I_CLOSED] = close, [I_REOPENED] = reopen, [I_VOIDED] = void }
local OF_VOTERS = { [I_CAST] = fold_cast, [I_REMOVAL] = fold_removal }

local fold

do
  -- the fold has passed a new fence: opens the gate if it was asked for in this run, else keeps it shut, since what
  -- is reserved under an older incarnation would no longer count
  local function open_gate(base, n, run)
    local gate = load_gate(base)
    library.note_change('gates', base)
    if gate.asked ~= n or gate.asked_run ~= gate.run or (run ~= '' and run ~= gate.run) then
      call('HSET', base .. ':gate', 'state', 'shut')
      return
    end
    call('UNLINK', base .. ':pending', base .. ':due')
    call('HSET', base .. ':gate', 'state', 'open', 'run', gate.run, 'n', string.format('%.0f', n))
    if gate.forget_clock then call('HDEL', base .. ':gate', 'clock', 'forget_clock') end
  end

  local FEW = 16  -- reservations are looked for without asking first if there are any

  -- ends the reservations of votes and removals that the live view has folded
  local function settle(base, confirmed)
    if #confirmed == 0 or (#confirmed > FEW and call('EXISTS', base .. ':pending') == 0) then return end
    local fields = {}
    for i = 1, #confirmed do fields[i] = pending_field(confirmed[i][4], confirmed[i][5]) end
    local pending = open_pending(base, fields)
    for i = 1, #confirmed do
      local item = confirmed[i]
      pending:drop(fields[i], (item[1] == I_REMOVAL and REMOVAL or '') .. item[6])
    end
    pending:close()
  end

  -- the voters in the items of the range, and rows of their votes, by contest, to be read together
  local function wanted_by(items, range)
    local wanted = {}
    for i = 1, #items do
      local item = items[i]
      if OF_VOTERS[item[1]] and item[2] >= range.from and item[2] < range.till then
        local its = wanted[item[4]]
        if not its then
          its = { voters = {}, rows = { '' }, has = {}, has_row = {} }
          wanted[item[4]] = its
        end
        if not its.has[item[5]] then
          its.has[item[5]] = true
          its.voters[#its.voters + 1] = item[5]
        end
        local choices = item[1] == I_CAST and item[11] or NOTHING
        for k = 1, item[1] == I_CAST and item[10] ~= BALLOT and 1 or #choices do
          local participant = item[10] == BALLOT and choices[k][1] or choices
          if not its.has_row[participant] then
            its.has_row[participant] = true
            its.rows[#its.rows + 1] = participant
          end
        end
      end
    end
    return wanted
  end

  local State = {}
  State.__index = State

  local function open_fold(views, wanted)
    return setmetatable({
      views = views, wanted = wanted, contests = {}, confirmed = {}, poison = {}, work = 0,
      stats = { fenced = 0, duplicates = 0, quarantined = 0, overruled = 0 },
      fence = tonumber(call('GET', views .. ':fence') or 0),
    }, State)
  end

  function State:pass(n, offset)
    local before = self.history or call('HGET', self.views .. ':fences', 'history') or ''
    self.fence, self.history = n, redis.sha1hex(string.format('%s %.0f@%.0f', before, n, offset))
  end

  function State:contest(contest, time)
    local c = self.contests[contest]
    if not c then
      c = contest_state(self.views, contest, self.wanted[contest], self)
      self.contests[contest] = c
      self.work = self.work + WORK.contest
    end
    c:turn(time)
    return c
  end

  local function fold_item(state, item)
    local kind = item[1]
    if OF_VOTERS[kind] then
      OF_VOTERS[kind](state, item)
    elseif OF_CONTESTS[kind] then
      state.work = math.huge
      local c = state:contest(item[4], item[3])
      if OF_CONTESTS[kind](c, item) then
        touch(c, item[2], item[3])
      else
        state.stats.duplicates = state.stats.duplicates + 1
      end
    elseif kind == I_FENCE then
      local n, after = item[4], item[5]
      if n > state.fence and (after == UNLIMITED or after == state.fence) then
        state:pass(n, item[2])
        state.opened = item
      end
    elseif kind == I_POISON then
      state.poison[#state.poison + 1] = string.format('%.0f', item[2])
      state.poison[#state.poison + 1] = item[4]
      state.stats.quarantined = state.stats.quarantined + 1
    end
  end

  -- Reads first, writes after.
  function fold(views, items, range, base)
    local state = open_fold(views, wanted_by(items, range))
    local from, untimed, deadline = range.from, math.huge, nil
    if range.seconds then deadline, untimed = os.clock() + range.seconds, WORK.untimed * range.seconds / FOLD_SECONDS end
    for i = 1, #items do
      local item = items[i]
      if item[2] >= range.till then break end
      if item[2] >= from then
        fold_item(state, item)
        range.time = math.max(range.time or 0, item[3])
        if i + state.work > untimed and items[i + 1] and os.clock() > deadline then range.till = item[2] + 1 end
      end
    end
    for _, c in pairs(state.contests) do c:write() end
    if state.opened then
      call('SET', views .. ':fence', string.format('%.0f', state.fence))
      call('HSET', views .. ':fences', 'history', state.history)
    end
    if #state.poison > 0 then call('HSET', views .. ':quarantine', unpack(state.poison)) end
    for name, more in pairs(state.stats) do
      if more > 0 then call('HINCRBY', views .. ':stats', name, more) end
    end
    if base then
      if state.opened then open_gate(base, state.opened[4], state.opened[6]) end
      settle(base, state.confirmed)
    end
  end
end

-- Returns whether two generations were folded by the same fences. If a fence was quarantined in only one of them, votes
-- accepted by the one are rejected in the other.
local function same_fences(one, other)
  return call('HGET', one .. ':fences', 'history') == call('HGET', other .. ':fences', 'history')
end

-- Called after the views became the live ones. If their fence is not the gate's incarnation, admitted votes would not
-- count: the gate is closed until a new fence. After a change of the layout too: reservations have the former layout, so
-- they are dropped, and none is made until the fence has shown which of them were recorded.
local function shut_unless_in_force(base, views, relaid)
  local gate = load_gate(base)
  if relaid then call('UNLINK', base .. ':pending', base .. ':due') end
  if relaid or (gate.open and gate.n ~= tonumber(call('GET', views .. ':fence') or 0)) then
    call('HSET', base .. ':gate', 'state', 'shut', 'asked_run', '')
  end
  library.note_change('gates', base)
end

do
  -- the packed list of items, each as `unpack_list` does
  local function unpack_items(packed)
    local items, following = {}, nil
    local function take(length, ...)
      following = length
      return { ... }
    end
    local count, length = list_head(packed, 1)
    following = length
    for i = 1, count do items[i] = take(unpack_members(packed, list_head(packed, following + 1))) end
    return items
  end

  generations = generations_of('votes', SCHEMA, fold, {
    accord = same_fences, taken_over = shut_unless_in_force, unpack_items = unpack_items,
  })
end
