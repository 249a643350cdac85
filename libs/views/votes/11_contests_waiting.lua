-- Removals, voidings and restorings after a contest's close, which wait for its reopening, and what voided its votes.

-- the waiting changes of a field: nil, a removal, or a list of voidings and restorings
function Contest:waiting_of(field)
  if self.waiting[field] == nil then return read_one(self:key('waiting'), field) end
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
  if not self.voids[field] then self:own('voids')[field] = read_one(self:key('voids'), field) or {} end
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
