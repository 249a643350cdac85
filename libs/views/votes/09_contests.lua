-- One contest during the fold of a batch: read on first use, written after the whole batch is folded. Its methods are shared,
-- and rare tables made on first use, since a batch may be of many contests.

local function empty_row(index) return { index, 0, 0, 0, 0, 0, 0, 0, 0, -1 } end

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
  if prefetch then c.read_voters, c.read_rows = c:read('voters', prefetch.voters), c:read('counts', prefetch.rows) end
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
  if standing.spilled == '' then return nil end
  local spilled = self.spilling[voter .. digest] or call('HGET', self:key('spill'), voter .. digest)
  return spilled and vote_records.restored(spilled, digest) or nil
end

function Contest:keep_details(field, choices, rating)
  local flat = {}
  for i = 1, choices and #choices or 0 do
    flat[2 * i - 1], flat[2 * i] = self:row(choices[i][1]).index, choices[i][2]
  end
  self:own('details')[field] = { choices and flat, rating }
end

-- reads names and rows of a ballot's participants, each kind at once
function Contest:read_chosen(choices)
  local indexes, unread = {}, {}
  for i = 1, #choices, 2 do
    if not self.names[choices[i]] then indexes[#indexes + 1] = choices[i] end
  end
  for index, name in pairs(#indexes > 0 and self:read('names', indexes) or NOTHING) do self.names[index] = name end
  for i = 1, #choices, 2 do
    local name = self.names[choices[i]]
    if not self.rows[name] and self.read_rows[name] == nil then unread[#unread + 1] = name end
  end
  if #unread == 0 then return end
  for name, packed in pairs(self:read('counts', unread)) do self:own('read_rows')[name] = packed end
end

-- a vote that counts, as it was entered
function Contest:vote(voter, record)
  local flags, digest, _, _, _, index, count, _, _, _, epoch = vote_records.unpack(record)
  local vote = { source = flags % 2, epoch = epoch, choices = { { self:name_of(index), count } }, weight = count }
  if flags >= DETAILED then
    local kept = self.details[voter .. digest] or read_one(self:key('details'), voter .. digest)
    vote.rating = kept[2]
    if kept[1] then
      vote.choices, vote.weight, vote.is_ballot = {}, 1, true
      self:read_chosen(kept[1])
      for i = 1, #kept[1], 2 do
        vote.choices[(i + 1) / 2] = { self:name_of(kept[1][i]), kept[1][i + 1] }
      end
    end
  end
  return vote
end

function Contest:rating(participant)
  local sums = self.ratings[participant]
  if not sums then
    sums = read_one(self:key('ratings'), participant) or { 0, 0, 0, {}, {} }
    self:own('ratings')[participant] = sums
    self.spent.work = self.spent.work + (#sums[4] + #sums[5]) / WORK.numbers
  end
  return sums
end

-- where each sub-rating is in the participant's list of them
function Contest:places_of(participant)
  local places = self.sub_places[participant]
  if not places then
    places = {}
    local subs = self:rating(participant)[4]
    for i = 1, #subs, 4 do places[subs[i]] = i end
    self:own('sub_places')[participant] = places
  end
  return places
end

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
