-- One contest during the fold of a batch: read on first use, written after the whole batch is folded.

-- an external source, and the figures of one of its ids: see the head of 01_records.lua
local S_CLOSED, S_TIME, S_MINUTE, S_IDS, S_HELD, S_RELEASES = 1, 2, 3, 4, 5, 6
local F_MINUTE, F_HELD = 4, 5
local HELD_RELEASES = 4

local function empty_row(index) return { index, 0, 0, 0, 0, 0, 0, 0, 0, -1 } end

local function minute_of(time) return (time - time % 60000) / 60000 end

-- prefixes of the timeline's members: a row by its index, an external source, one of its ids (none the beginning of
-- another)
local function row_subject(index) return 'r' .. struct.pack('>I3', index) end

local function source_subject(name) return 's' .. name .. '\0' end

local function figures_subject(field) return 'f' .. struct.pack('>I4', #field) .. field end

-- the closing in force for a source
local function closing_of(s, reopened) return s[S_CLOSED] > reopened and s[S_CLOSED] or 0 end

local function release_field(source, number) return source .. '\0' .. string.format('%.0f', number) end

-- an id's figures, once what was held of them was released
local function take_held(f) return { f[F_HELD][1], f[F_HELD][2], f[F_HELD][3], f[F_MINUTE] } end

-- `spent.work` counts the work of the fold (WORK)
local function contest_state(views, contest, prefetch, spent)
  local voters, read_voters, rows, names, details, ratings, waiting, voids, past = {}, {}, {}, {}, {}, {}, {}, {}, {}
  local figures, changes, releases, read_rows, new_names, sub_places = {}, {}, {}, {}, {}, {}
  local minute, former, is_new, last_change, has_ratings
  local minute_begins, minute_ends = 0, 0
  local c = { spilling = {}, reports = {}, spent = spent }
  local sources = {}
  if prefetch then
    local packed = call('HMGET', views .. ':voters:' .. contest, unpack(prefetch.voters))
    for i = 1, #prefetch.voters do read_voters[prefetch.voters[i]] = packed[i] end
    packed = call('HMGET', views .. ':counts:' .. contest, unpack(prefetch.rows))
    for i = 1, #prefetch.rows do read_rows[prefetch.rows[i]] = packed[i] end
  end

  local function at(what) return views .. ':' .. what .. ':' .. contest end

  local function number_change(field)
    last_change = (last_change or tonumber(call('ZREVRANGE', at('changes'), 0, 0, 'WITHSCORES')[2] or 0)) + 1
    changes[field] = last_change
  end

  local function number_row(participant, index)
    if index > FIRST_ROWS then number_change('\0' .. participant) end
  end

  function c.voter(voter, anonymous)
    local standing = voters[voter]
    if not standing then
      local packed = read_voters[voter]
      if packed == nil then packed = call('HGET', at('voters'), voter) end
      standing = unpack_voter(voter, packed)
      voters[voter] = standing
      if #standing.sums > SCANNED then spent.work = spent.work + #standing.sums / WORK.numbers end
    end
    if standing.anonymous == nil then standing.anonymous = anonymous end
    return standing
  end

  function c.read_share(voter, number)
    spent.work = spent.work + WORK.share
    return call('HGET', at('shares'), shares.field(voter, number))
  end

  function c.row(participant)
    local row = rows[participant]
    if row then return row end
    local packed, cells = read_rows[participant], nil
    if packed == nil then packed = call('HGET', at('counts'), participant) end
    if packed then
      cells = unpack_one(packed)
    elseif participant == '' then
      cells = empty_row(0)
      for i = ROW_OFFSET, ROW_REOPENED do cells[i] = 0 end
      cells[ROW_OFFSET] = UNLIMITED
      is_new = true
    else
      local top = c.row('').cells
      top[1] = top[1] + 1
      cells = empty_row(top[1])
      names[cells[1]], new_names[string.format('%.0f', cells[1])] = participant, participant
      number_row(participant, cells[1])
    end
    row = { cells = cells, index = participant == '' and 0 or cells[1] }
    rows[participant] = row
    return row
  end

  local function name_of(index)
    if not names[index] then names[index] = call('HGET', at('names'), string.format('%.0f', index)) end
    return names[index]
  end

  function c.find(voter, standing, digest)
    local at_record = inline_at(standing.records, digest)
    if at_record then return string.sub(standing.records, at_record, at_record + ROW_SIZE - 1) end
    if standing.spilled == 0 then return nil end
    return c.spilling[voter .. digest] or call('HGET', at('spill'), voter .. digest) or nil
  end

  function c.keep_details(field, epoch, choices, rating)
    local flat = {}
    for i = 1, choices and #choices or 0 do
      flat[2 * i - 1], flat[2 * i] = c.row(choices[i][1]).index, choices[i][2]
    end
    details[field] = { epoch, choices and flat, rating }
  end

  -- reads names and rows of a ballot's participants, each kind at once
  local function read_chosen(choices)
    local indexes, unread = {}, {}
    for i = 1, #choices, 2 do
      if not names[choices[i]] then indexes[#indexes + 1] = choices[i] end
    end
    local found = names_of(views, contest, indexes)
    for i = 1, #indexes do names[indexes[i]] = found[indexes[i]] end
    for i = 1, #choices, 2 do
      local name = names[choices[i]]
      if not rows[name] and read_rows[name] == nil then unread[#unread + 1] = name end
    end
    if #unread == 0 then return end
    local packed = call('HMGET', at('counts'), unpack(unread))
    for i = 1, #unread do read_rows[unread[i]] = packed[i] end
  end

  -- a vote that counts, as it was entered
  function c.vote(voter, record)
    local digest, _, _, _, index, count, flags = struct.unpack(ROW, record)
    local vote = { source = flags % 2, epoch = 0, choices = { { name_of(index), count } }, weight = count }
    if flags >= DETAILED then
      local kept = details[voter .. digest] or unpack_one(call('HGET', at('details'), voter .. digest))
      vote.epoch, vote.rating = kept[1], kept[3]
      if kept[2] then
        vote.choices, vote.weight, vote.is_ballot = {}, 1, true
        read_chosen(kept[2])
        for i = 1, #kept[2], 2 do
          vote.choices[(i + 1) / 2] = { name_of(kept[2][i]), kept[2][i + 1] }
        end
      end
    end
    return vote
  end

  function c.rating(participant)
    if not ratings[participant] then
      local packed = call('HGET', at('ratings'), participant)
      ratings[participant] = packed and unpack_one(packed) or { 0, 0, {}, {} }
      spent.work = spent.work + (#ratings[participant][3] + #ratings[participant][4]) / WORK.numbers
    end
    return ratings[participant]
  end

  -- where each sub-rating is in the participant's list of them
  function c.sub_places(participant)
    local places = sub_places[participant]
    if not places then
      places = {}
      local subs = c.rating(participant)[3]
      for i = 1, #subs, 3 do places[subs[i]] = i end
      sub_places[participant] = places
    end
    return places
  end

  -- the waiting changes of a field: nil, a removal, or a list of voidings and restorings
  local function waiting_of(field)
    if waiting[field] == nil then
      local packed = call('HGET', at('waiting'), field)
      return packed and unpack_one(packed) or nil
    end
    return waiting[field] or nil
  end

  -- stores a removal after the close; false if one waits already
  function c.wait(field, removal)
    if waiting_of(field) then return false end
    waiting[field] = removal
    return true
  end

  -- the operations that voided a vote
  function c.voids(field)
    if not voids[field] then
      local packed = call('HGET', at('voids'), field)
      voids[field] = packed and unpack_one(packed) or {}
    end
    return voids[field]
  end

  -- stores a voiding or restoring after the close; false if it waits already
  function c.void_later(field, offset, restored, operation)
    local kept = waiting_of(field) or {}
    for i = 1, #kept do
      if kept[i][2] == restored and kept[i][3] == operation then return false end
    end
    kept[#kept + 1] = { offset, restored, operation }
    waiting[field] = kept
    return true
  end

  -- At most so many changes that waited (UNLIMITED: all), in the order of the log, as {field, change}; they wait no
  -- more. And whether others do. Only the fields that come first are read.
  function c.take_waiting(at_most)
    local known, heads, found = 0, {}, {}
    for field, kept in pairs(waiting) do
      known = known + 1
      if kept then heads[#heads + 1] = field end
    end
    local last = at_most == UNLIMITED and -1 or at_most + known - 1
    local stored = call('ZRANGE', at('queue'), 0, last)
    for i = 1, #stored do
      if waiting[stored[i]] == nil then heads[#heads + 1] = stored[i] end
    end
    for i = 1, #heads do
      local kept = waiting_of(heads[i])
      waiting[heads[i]] = kept
      local each = type(kept[1]) == 'table' and kept or { kept }
      for k = 1, #each do found[#found + 1] = { heads[i], each[k] } end
    end
    table.sort(found, function(a, b) return a[2][1] < b[2][1] end)
    local taken = {}
    for i = 1, at_most == UNLIMITED and #found or math.min(at_most, #found) do
      local field, change = found[i][1], found[i][2]
      taken[i] = found[i]
      if #change == 3 and #waiting[field] > 1 then
        table.remove(waiting[field], 1)
      else
        waiting[field] = false
      end
    end
    return taken, #taken < #found or #stored < call('ZCARD', at('queue'))
  end

  local function remember(subject, since, packed)
    past[#past + 1] = 0
    past[#past + 1] = subject .. struct.pack('>I4', since) .. packed
  end

  local function with_rating(participant, cells)
    if ratings[participant] then return pack({ cells, pack(ratings[participant]) }) end
    if has_ratings == nil then has_ratings = call('EXISTS', at('ratings')) == 1 end
    return pack({ cells, has_ratings and call('HGET', at('ratings'), participant) or '' })
  end

  -- An event of this append time is to be folded; from then on `top` is the contest's own row. The event's minute is
  -- that of the latest among those that changed the contest: clocks may go back.
  function c.turn(time)
    c.top = c.top or c.row('')
    local top = c.top.cells
    if time < minute_ends and top[ROW_TIME] >= minute_begins then return end  -- the minute of the last change
    local since = minute_of(top[ROW_TIME])
    minute, former = math.max(since, minute_of(time)), nil
    minute_begins, minute_ends = minute * 60000, (minute + 1) * 60000
    if minute > since and top[ROW_OFFSET] >= 0 then former = { since, with_rating('', top) } end
  end

  -- the event changes something
  function c.keep_former()
    if former then remember(row_subject(0), former[1], former[2]) end
    former = nil
  end

  -- the event changes the row, which is still as it was
  function c.changes(participant, row)
    local cells = row.cells
    number_row(participant, row.index)
    local since = cells[ROW_MINUTE]
    if since == minute then return end
    if since >= 0 then remember(row_subject(row.index), since, with_rating(participant, cells)) end
    cells[ROW_MINUTE] = minute
  end

  function c.source(name)
    if not sources[name] then
      local packed = call('HGET', at('sources'), name)
      sources[name] = packed and unpack_one(packed) or { 0, 0, -1, 0, 0, 0 }
    end
    return sources[name]
  end

  -- the event changes the source, which is still as it was
  function c.source_changes(name)
    local s = c.source(name)
    local since = s[S_MINUTE]
    if since >= 0 and since < minute then remember(source_subject(name), since, pack(s)) end
    s[S_MINUTE], s[S_CLOSED] = minute, closing_of(s, c.top.cells[ROW_REOPENED])
  end

  -- puts the source's held figures in force
  function c.release(name)
    local s = c.source(name)
    if s[S_HELD] == 0 then return end
    s[S_HELD], s[S_RELEASES] = 0, s[S_RELEASES] + 1
    number_change(name)
    releases[release_field(name, s[S_RELEASES])] = minute
  end

  -- the figures of these ids of a source, which are first in each of the list, are read at once
  function c.read_figures(name, ids)
    for from = 1, #ids, 4000 do
      local fields = {}
      for i = from, math.min(from + 3999, #ids) do fields[i - from + 1] = name .. '\0' .. ids[i][1] end
      local packed = call('HMGET', at('figures'), unpack(fields))
      for i = 1, #fields do
        if figures[fields[i]] == nil then figures[fields[i]] = packed[i] and unpack_one(packed[i]) end
      end
    end
  end

  -- the event changes the figures of the id, which were read before
  function c.figures(name, id)
    local s, field = c.source(name), name .. '\0' .. id
    local f = figures[field]
    if not f then
      f = { 0, 0, 0, minute }
      s[S_IDS] = s[S_IDS] + 1
    elseif f[F_MINUTE] ~= minute then
      remember(figures_subject(field), f[F_MINUTE], pack(f))
      f[F_MINUTE] = minute
    end
    if f[F_HELD] and f[F_HELD][HELD_RELEASES] < s[S_RELEASES] then f = take_held(f) end
    figures[field] = f
    number_change(field)
    return f
  end

  function c.has_report(field) return c.reports[field] ~= nil or call('HEXISTS', at('reports'), field) == 1 end

  local function write_flat(command, what, flat)
    for from = 1, #flat, 4000 do call(command, at(what), unpack(flat, from, math.min(from + 3999, #flat))) end
  end

  local function write_packed(what, values, packing)
    local flat = {}
    for field, value in pairs(values) do
      flat[#flat + 1] = field
      flat[#flat + 1] = packing(value)
    end
    write_flat('HSET', what, flat)
  end

  local function write_waiting()
    local kept, order, gone = {}, {}, {}
    for field, change in pairs(waiting) do
      if change then
        kept[field] = change
        order[#order + 1] = string.format('%.0f', type(change[1]) == 'table' and change[1][1] or change[1])
        order[#order + 1] = field
      else
        gone[#gone + 1] = field
      end
    end
    write_flat('HDEL', 'waiting', gone)
    write_flat('ZREM', 'queue', gone)
    write_packed('waiting', kept, pack)
    write_flat('ZADD', 'queue', order)
  end

  function c.write()
    local standings, used_shares, counts = {}, {}, {}
    for voter, s in pairs(voters) do
      if s.records ~= '' then standings[voter] = s end
      if s.shares then
        for number, share in pairs(s.shares) do
          if share.changed then used_shares[shares.field(voter, number)] = share end
        end
      end
    end
    for participant, row in pairs(rows) do counts[participant] = row.cells end
    write_packed('voters', standings, pack_voter)
    write_packed('shares', used_shares, shares.pack)
    write_packed('counts', counts, pack)
    write_packed('names', new_names, tostring)
    write_packed('spill', c.spilling, tostring)
    write_packed('details', details, pack)
    write_packed('ratings', ratings, pack)
    write_packed('voids', voids, pack)
    write_waiting()
    write_packed('sources', sources, pack)
    write_packed('figures', figures, pack)
    write_packed('releases', releases, tostring)
    local order = {}
    for field, number in pairs(changes) do
      order[#order + 1] = number
      order[#order + 1] = field
    end
    write_flat('ZADD', 'changes', order)
    write_packed('reports', c.reports, pack)
    write_flat('ZADD', 'minutes', past)
    if is_new then call('ZADD', views .. ':contests', 0, contest) end
  end

  return c
end
