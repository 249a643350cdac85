-- One contest during the fold of a batch: read on first use, written after the whole batch is folded. Its methods are shared,
-- and rare tables made on first use, since a batch may be of many contests.

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

local NOTHING = {}  -- in place of each table of a contest that is not used in the fold: never written
local Contest = {}
Contest.__index = Contest

-- `spent.work` counts the work of the fold (WORK); prefetch: voters and rows to be read together, or nil
local function contest_state(views, contest, prefetch, spent)
  local c = setmetatable({
    views = views, contest = contest, spent = spent, top = false, is_new = false,
    minute = 0, minute_begins = 0, minute_ends = 0, former = false,
    voters = {}, read_voters = NOTHING, rows = {}, read_rows = NOTHING, names = {}, new_names = NOTHING,
    spilling = NOTHING, details = NOTHING, ratings = NOTHING, sub_places = NOTHING, voids = NOTHING, waiting = NOTHING,
    sources = NOTHING, figures = NOTHING, changes = NOTHING, releases = NOTHING, reports = NOTHING, past = NOTHING,
  }, Contest)
  if prefetch then
    c.read_voters, c.read_rows = c:read('voters', prefetch.voters), c:read('counts', prefetch.rows)
  end
  return c
end

-- one of the tables, which the fold uses from now on
function Contest:own(name)
  local its = self[name]
  if its == NOTHING then
    its = {}
    self[name] = its
  end
  return its
end

function Contest:key(what) return self.views .. ':' .. what .. ':' .. self.contest end

-- values by field, false where there is none
function Contest:read(what, fields)
  local values, found = call('HMGET', self:key(what), unpack(fields)), {}
  for i = 1, #fields do found[fields[i]] = values[i] end
  return found
end

function Contest:number_change(field)
  self.last_change = (self.last_change or tonumber(call('ZREVRANGE', self:key('changes'), 0, 0, 'WITHSCORES')[2] or 0)) + 1
  self:own('changes')[field] = self.last_change
end

function Contest:number_row(participant, index)
  if index > FIRST_ROWS then self:number_change('\0' .. participant) end
end

function Contest:voter(voter, anonymous)
  local standing = self.voters[voter]
  if not standing then
    local packed = self.read_voters[voter]
    if packed == nil then packed = call('HGET', self:key('voters'), voter) end
    standing = unpack_voter(voter, packed)
    self.voters[voter] = standing
    if #standing.sums > SCANNED then self.spent.work = self.spent.work + #standing.sums / WORK.numbers end
  end
  if standing.anonymous == nil then standing.anonymous = anonymous end
  return standing
end

function Contest:read_share(voter, number)
  self.spent.work = self.spent.work + WORK.share
  return call('HGET', self:key('shares'), shares.field(voter, number))
end

function Contest:row(participant)
  local row = self.rows[participant]
  if row then return row end
  local packed, cells = self.read_rows[participant], nil
  if packed == nil then packed = call('HGET', self:key('counts'), participant) end
  if packed then
    cells = unpack_list(packed)
  elseif participant == '' then
    cells = empty_row(0)
    for i = ROW_OFFSET, ROW_REOPENED do cells[i] = 0 end
    cells[ROW_OFFSET] = UNLIMITED
    self.is_new = true
  else
    local top = self:row('').cells
    top[1] = top[1] + 1
    cells = empty_row(top[1])
    self.names[cells[1]] = participant
    self:own('new_names')[string.format('%.0f', cells[1])] = participant
    self:number_row(participant, cells[1])
  end
  row = { cells = cells, index = participant == '' and 0 or cells[1] }
  self.rows[participant] = row
  return row
end

function Contest:name_of(index)
  if not self.names[index] then self.names[index] = call('HGET', self:key('names'), string.format('%.0f', index)) end
  return self.names[index]
end

function Contest:find(voter, standing, digest)
  local at_record = vote_records.index(standing.records, digest)
  if at_record then return vote_records.at(standing.records, at_record) end
  if standing.spilled == 0 then return nil end
  return self.spilling[voter .. digest] or call('HGET', self:key('spill'), voter .. digest) or nil
end

function Contest:keep_details(field, epoch, choices, rating)
  local flat = {}
  for i = 1, choices and #choices or 0 do
    flat[2 * i - 1], flat[2 * i] = self:row(choices[i][1]).index, choices[i][2]
  end
  self:own('details')[field] = { epoch, choices and flat, rating }
end

-- reads names and rows of a ballot's participants, each kind at once
function Contest:read_chosen(choices)
  local indexes, unread = {}, {}
  for i = 1, #choices, 2 do
    if not self.names[choices[i]] then indexes[#indexes + 1] = choices[i] end
  end
  local found = names_of(self.views, self.contest, indexes)
  for i = 1, #indexes do self.names[indexes[i]] = found[indexes[i]] end
  for i = 1, #choices, 2 do
    local name = self.names[choices[i]]
    if not self.rows[name] and self.read_rows[name] == nil then unread[#unread + 1] = name end
  end
  if #unread == 0 then return end
  for name, packed in pairs(self:read('counts', unread)) do self:own('read_rows')[name] = packed end
end

-- a vote that counts, as it was entered
function Contest:vote(voter, record)
  local flags, digest, _, _, _, index, count = vote_records.unpack(record)
  local vote = { source = flags % 2, epoch = 0, choices = { { self:name_of(index), count } }, weight = count }
  if flags >= DETAILED then
    local kept = self.details[voter .. digest] or unpack_one(call('HGET', self:key('details'), voter .. digest))
    vote.epoch, vote.rating = kept[1], kept[3]
    if kept[2] then
      vote.choices, vote.weight, vote.is_ballot = {}, 1, true
      self:read_chosen(kept[2])
      for i = 1, #kept[2], 2 do
        vote.choices[(i + 1) / 2] = { self:name_of(kept[2][i]), kept[2][i + 1] }
      end
    end
  end
  return vote
end

function Contest:rating(participant)
  local sums = self.ratings[participant]
  if not sums then
    local packed = call('HGET', self:key('ratings'), participant)
    sums = packed and unpack_one(packed) or { 0, 0, {}, {} }
    self:own('ratings')[participant] = sums
    self.spent.work = self.spent.work + (#sums[3] + #sums[4]) / WORK.numbers
  end
  return sums
end

-- where each sub-rating is in the participant's list of them
function Contest:places_of(participant)
  local places = self.sub_places[participant]
  if not places then
    places = {}
    local subs = self:rating(participant)[3]
    for i = 1, #subs, 3 do places[subs[i]] = i end
    self:own('sub_places')[participant] = places
  end
  return places
end

-- the waiting changes of a field: nil, a removal, or a list of voidings and restorings
function Contest:waiting_of(field)
  if self.waiting[field] == nil then
    local packed = call('HGET', self:key('waiting'), field)
    return packed and unpack_one(packed) or nil
  end
  return self.waiting[field] or nil
end

-- stores a removal after the close; false if one waits already
function Contest:wait(field, removal)
  if self:waiting_of(field) then return false end
  self:own('waiting')[field] = removal
  return true
end

-- the operations that voided a vote
function Contest:voids_of(field)
  if not self.voids[field] then
    local packed = call('HGET', self:key('voids'), field)
    self:own('voids')[field] = packed and unpack_one(packed) or {}
  end
  return self.voids[field]
end

-- stores a voiding or restoring after the close; false if it waits already
function Contest:void_later(field, offset, restored, operation)
  local kept = self:waiting_of(field) or {}
  for i = 1, #kept do
    if kept[i][2] == restored and kept[i][3] == operation then return false end
  end
  kept[#kept + 1] = { offset, restored, operation }
  self:own('waiting')[field] = kept
  return true
end

-- At most so many changes that waited (UNLIMITED: all), in the order of the log, as {field, change}; they wait no
-- more. And whether others do. Only the fields that come first are read.
function Contest:take_waiting(at_most)
  local known, heads, found = 0, {}, {}
  for field, kept in pairs(self.waiting) do
    known = known + 1
    if kept then heads[#heads + 1] = field end
  end
  local last = at_most == UNLIMITED and -1 or at_most + known - 1
  local stored = call('ZRANGE', self:key('queue'), 0, last)
  for i = 1, #stored do
    if self.waiting[stored[i]] == nil then heads[#heads + 1] = stored[i] end
  end
  for i = 1, #heads do
    local kept = self:waiting_of(heads[i])
    self:own('waiting')[heads[i]] = kept
    local each = type(kept[1]) == 'table' and kept or { kept }
    for k = 1, #each do found[#found + 1] = { heads[i], each[k] } end
  end
  table.sort(found, function(a, b) return a[2][1] < b[2][1] end)
  local taken = {}
  for i = 1, at_most == UNLIMITED and #found or math.min(at_most, #found) do
    local field, change = found[i][1], found[i][2]
    taken[i] = found[i]
    if #change == 3 and #self.waiting[field] > 1 then
      table.remove(self.waiting[field], 1)
    else
      self:own('waiting')[field] = false
    end
  end
  return taken, #taken < #found or #stored < call('ZCARD', self:key('queue'))
end

function Contest:remember(subject, since, packed)
  local past = self:own('past')
  past[#past + 1] = 0
  past[#past + 1] = subject .. struct.pack('>I4', since) .. packed
end

function Contest:with_rating(participant, cells)
  if self.ratings[participant] then return pack({ cells, pack(self.ratings[participant]) }) end
  if self.has_ratings == nil then self.has_ratings = call('EXISTS', self:key('ratings')) == 1 end
  return pack({ cells, self.has_ratings and call('HGET', self:key('ratings'), participant) or '' })
end

-- An event of this append time is to be folded; from then on `top` is the contest's own row. The event's minute is
-- that of the latest among those that changed the contest: clocks may go back.
function Contest:turn(time)
  self.top = self.top or self:row('')
  local top = self.top.cells
  if time < self.minute_ends and top[ROW_TIME] >= self.minute_begins then return end  -- the minute of the last change
  local since = minute_of(top[ROW_TIME])
  self.minute, self.former = math.max(since, minute_of(time)), false
  self.minute_begins, self.minute_ends = self.minute * 60000, (self.minute + 1) * 60000
  if self.minute > since and top[ROW_OFFSET] >= 0 then self.former = { since, self:with_rating('', top) } end
end

-- the event changes something
function Contest:keep_former()
  if self.former then self:remember(row_subject(0), self.former[1], self.former[2]) end
  self.former = false
end

-- the event changes the row, which is still as it was
function Contest:change_row(participant, row)
  local cells = row.cells
  self:number_row(participant, row.index)
  local since = cells[ROW_MINUTE]
  if since == self.minute then return end
  if since >= 0 then self:remember(row_subject(row.index), since, self:with_rating(participant, cells)) end
  cells[ROW_MINUTE] = self.minute
end

function Contest:source(name)
  if not self.sources[name] then
    local packed = call('HGET', self:key('sources'), name)
    self:own('sources')[name] = packed and unpack_one(packed) or { 0, 0, -1, 0, 0, 0 }
  end
  return self.sources[name]
end

-- the event changes the source, which is still as it was
function Contest:change_source(name)
  local s = self:source(name)
  local since = s[S_MINUTE]
  if since >= 0 and since < self.minute then self:remember(source_subject(name), since, pack(s)) end
  s[S_MINUTE], s[S_CLOSED] = self.minute, closing_of(s, self.top.cells[ROW_REOPENED])
end

-- puts the source's held figures in force
function Contest:release(name)
  local s = self:source(name)
  if s[S_HELD] == 0 then return end
  s[S_HELD], s[S_RELEASES] = 0, s[S_RELEASES] + 1
  self:number_change(name)
  self:own('releases')[release_field(name, s[S_RELEASES])] = self.minute
end

-- the figures of these ids of a source, which are first in each of the list, are read at once
function Contest:read_figures(name, ids)
  for from = 1, #ids, 4000 do
    local fields = {}
    for i = from, math.min(from + 3999, #ids) do fields[i - from + 1] = name .. '\0' .. ids[i][1] end
    local packed = call('HMGET', self:key('figures'), unpack(fields))
    for i = 1, #fields do
      if self.figures[fields[i]] == nil then self:own('figures')[fields[i]] = packed[i] and unpack_one(packed[i]) end
    end
  end
end

-- the event changes the figures of the id, which were read before
function Contest:change_figures(name, id)
  local s, field = self:source(name), name .. '\0' .. id
  local f = self.figures[field]
  if not f then
    f = { 0, 0, 0, self.minute }
    s[S_IDS] = s[S_IDS] + 1
  elseif f[F_MINUTE] ~= self.minute then
    self:remember(figures_subject(field), f[F_MINUTE], pack(f))
    f[F_MINUTE] = self.minute
  end
  if f[F_HELD] and f[F_HELD][HELD_RELEASES] < s[S_RELEASES] then f = take_held(f) end
  self:own('figures')[field] = f
  self:number_change(field)
  return f
end

function Contest:has_report(field) return self.reports[field] ~= nil or call('HEXISTS', self:key('reports'), field) == 1 end

function Contest:write_flat(command, what, flat)
  for from = 1, #flat, 4000 do call(command, self:key(what), unpack(flat, from, math.min(from + 3999, #flat))) end
end

function Contest:write_packed(what, values, packing)
  if values == NOTHING then return end
  local flat, n = {}, 0
  for field, value in pairs(values) do
    flat[n + 1], flat[n + 2] = field, packing(value)
    n = n + 2
  end
  self:write_flat('HSET', what, flat)
end

function Contest:write_waiting()
  if self.waiting == NOTHING then return end
  local kept, order, gone = {}, {}, {}
  for field, change in pairs(self.waiting) do
    if change then
      kept[field] = change
      order[#order + 1] = string.format('%.0f', type(change[1]) == 'table' and change[1][1] or change[1])
      order[#order + 1] = field
    else
      gone[#gone + 1] = field
    end
  end
  self:write_flat('HDEL', 'waiting', gone)
  self:write_flat('ZREM', 'queue', gone)
  self:write_packed('waiting', kept, pack)
  self:write_flat('ZADD', 'queue', order)
end

-- voters, and what further participants used
function Contest:write_voters()
  local flat, n, used_shares = {}, 0, NOTHING
  for voter, s in pairs(self.voters) do
    if s.records ~= '' then
      flat[n + 1], flat[n + 2] = voter, pack_voter(s)
      n = n + 2
    end
    for number, share in pairs(s.shares or NOTHING) do
      if share.changed then
        if used_shares == NOTHING then used_shares = {} end
        used_shares[shares.field(voter, number)] = share
      end
    end
  end
  self:write_flat('HSET', 'voters', flat)
  self:write_packed('shares', used_shares, shares.pack)
end

function Contest:write()
  self:write_voters()
  self:write_packed('counts', self.rows, function(row) return pack(row.cells) end)
  self:write_packed('names', self.new_names, tostring)
  self:write_packed('spill', self.spilling, tostring)
  self:write_packed('details', self.details, pack)
  self:write_packed('ratings', self.ratings, pack)
  self:write_packed('voids', self.voids, pack)
  self:write_waiting()
  self:write_packed('sources', self.sources, pack)
  self:write_packed('figures', self.figures, pack)
  self:write_packed('releases', self.releases, tostring)
  local order = {}
  for field, number in pairs(self.changes) do
    order[#order + 1] = number
    order[#order + 1] = field
  end
  self:write_flat('ZADD', 'changes', order)
  self:write_packed('reports', self.reports, pack)
  self:write_flat('ZADD', 'minutes', self.past)
  if self.is_new then call('ZADD', self.views .. ':contests', 0, self.contest) end
end
