-- External sources, and the marks of a contest's closing and reopening.

local function report(c, item)
  local offset, time, source, id, content, delta, decreases, counts = item[2], item[3], item[5], item[6], item[7],
    item[8], item[9], item[10]
  local field = source .. '\0' .. id
  if c.has_report(field) then return false end
  local s, held = c.source(source), {}
  if s[S_CLOSED] > 0 then
    c.reports[field] = { content, offset, 1, held }
    return true
  end
  c.source_changes(source)
  if decreases then
    for mapped, figures in pairs(s[S_HELD]) do s[S_FIGURES][mapped] = figures end
    s[S_HELD] = {}
  end
  for i = 1, #counts do
    local mapped, figures = counts[i][1], { counts[i][2], counts[i][3], counts[i][4] }
    local known = s[S_FIGURES][mapped]
    if delta then
      local waits = s[S_HELD][mapped]
      for k = 1, 3 do
        if waits then waits[k] = waits[k] + figures[k] end
        figures[k] = figures[k] + (known and known[k] or 0)
      end
      s[S_FIGURES][mapped] = figures
    elseif known and figures[1] < known[1] and not decreases then
      s[S_HELD][mapped] = figures
      held[#held + 1] = mapped
    else
      s[S_FIGURES][mapped], s[S_HELD][mapped] = figures, nil
    end
  end
  s[S_TIME] = math.max(s[S_TIME], time)
  c.reports[field] = { content, offset, 0, held }
  return true
end

-- the first mark of a closing counts; one that was voided before it came, does not
local function close(c, item)
  local seq, source, top = item[5], item[6], c.row('').cells
  if seq <= top[ROW_REOPENED] then return false end
  local where, at = top, ROW_CLOSED
  if source ~= '' then where, at = c.source(source), S_CLOSED end
  if math.abs(where[at]) >= seq then return false end
  if source ~= '' then c.source_changes(source) end
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

-- What waited takes effect, as much of it as the item says; the marks are void from the item on that leaves nothing.
local function reopen(c, item)
  local seq, at_most, top = item[5], item[6], c.row('').cells
  if seq <= top[ROW_REOPENED] then return false end
  if math.abs(top[ROW_CLOSED]) <= seq then
    local waited, more = c.take_waiting(at_most)
    apply_waiting(c, waited)
    top[ROW_CLOSED] = more and -math.abs(top[ROW_CLOSED]) or 0
    if more then return true end
  end
  top[ROW_REOPENED] = seq
  local names = c.source_names()
  for i = 1, #names do c.source(names[i]) end
  for name, s in pairs(c.sources) do
    if s[S_CLOSED] <= seq then
      c.source_changes(name)
      s[S_CLOSED] = 0
    end
  end
  return true
end
