-- The external sources of a contest during the fold: their rows, and the figures of their ids.

-- an external source, and the figures of one of its ids: see the head of 01_records.lua
local S_CLOSED, S_TIME, S_MINUTE, S_IDS, S_HELD, S_RELEASES = 1, 2, 3, 4, 5, 6
local F_MINUTE, F_HELD = 4, 5
local HELD_RELEASES = 4

-- the closing in force for a source
local function closing_of(s, reopened) return s[S_CLOSED] > reopened and s[S_CLOSED] or 0 end

local function release_field(source, number) return source .. '\0' .. string.format('%.0f', number) end

-- an id's figures, once what was held of them was released
local function take_held(f) return { f[F_HELD][1], f[F_HELD][2], f[F_HELD][3], f[F_MINUTE] } end

function Contest:source(name)
  if not self.sources[name] then self:own('sources')[name] = read_one(self:key('sources'), name) or { 0, 0, -1, 0, 0, 0 } end
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
