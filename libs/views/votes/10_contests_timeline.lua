-- A contest's former rows, which the timeline holds: stored when an event of a later minute changes a row.

local function minute_of(time) return (time - time % 60000) / 60000 end

-- prefixes of the timeline's members: a row by its index, an external source, one of its ids (none the beginning of
-- another)
local function row_subject(index) return 'r' .. struct.pack('>I3', index) end

local function source_subject(name) return 's' .. name .. '\0' end

local function figures_subject(field) return 'f' .. struct.pack('>I4', #field) .. field end

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
