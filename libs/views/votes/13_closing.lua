-- External sources, and the close markers and reopenings of a contest.

local function report(c, item)
  local offset, time, source, id, content, delta, decreases, counts = item[2], item[3], item[5], item[6], item[7],
    item[8], item[9], item[10]
  local field = source .. '\0' .. id
  if c:has_report(field) then return false end
  local s, held = c:source(source), {}
  if closing_of(s, c.top.cells[ROW_REOPENED]) > 0 then
    c:own('reports')[field] = { content, offset, 1, held }
    return true
  end
  c:change_source(source)
  if decreases then c:release(source) end
  c:read_figures(source, counts)
  for i = 1, #counts do
    local mapped, reported = counts[i][1], { counts[i][2], counts[i][3], counts[i][4] }
    local f = c:change_figures(source, mapped)
    local waits = f[F_HELD]
    if delta then
      for k = 1, 3 do
        f[k] = f[k] + reported[k]
        if waits then waits[k] = waits[k] + reported[k] end
      end
    elseif reported[1] < f[1] and not decreases then
      if not waits then s[S_HELD] = s[S_HELD] + 1 end
      f[F_HELD], reported[HELD_RELEASES] = reported, s[S_RELEASES]
      held[#held + 1] = mapped
    else
      if waits then s[S_HELD] = s[S_HELD] - 1 end
      f[1], f[2], f[3], f[F_HELD] = reported[1], reported[2], reported[3], nil
    end
  end
  s[S_TIME] = math.max(s[S_TIME], time)
  c:own('reports')[field] = { content, offset, 0, held }
  return true
end

-- the first marker of a closing takes effect, unless it was cancelled before
local function close(c, item)
  local seq, source, top = item[5], item[6], c.top.cells
  if seq <= top[ROW_REOPENED] then return false end
  local where, at = top, ROW_CLOSED
  if source ~= '' then where, at = c:source(source), S_CLOSED end
  if math.abs(where[at]) >= seq then return false end
  if source ~= '' then c:change_source(source) end
  where[at] = seq
  return true
end

local function apply_waiting(c, waited)
  for i = 1, #waited do
    local field, what = waited[i][1], waited[i][2]
    if #what == 3 then
      local voter, digest = string.sub(field, 1, -DIGEST_SIZE - 2), string.sub(field, -DIGEST_SIZE - 1, -2)
      void_vote(c, voter, digest, what[2], what[3])
    else
      remove_vote(c, string.sub(field, 1, -DIGEST_SIZE - 1), string.sub(field, -DIGEST_SIZE), what)
    end
  end
end

-- Applies as many waiting changes as the item allows; the item that leaves none cancels the close markers, those of
-- sources too, by the number of the latest closing reopened.
local function reopen(c, item)
  local seq, at_most, top = item[5], item[6], c.top.cells
  if seq <= top[ROW_REOPENED] then return false end
  if math.abs(top[ROW_CLOSED]) <= seq then
    local waited, more = c:take_waiting(at_most)
    apply_waiting(c, waited)
    top[ROW_CLOSED] = more and -math.abs(top[ROW_CLOSED]) or 0
    if more then return true end
  end
  top[ROW_REOPENED] = seq
  return true
end
