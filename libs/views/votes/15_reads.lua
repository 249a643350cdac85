-- Reads; most replies include the view's position.

-- ARGV: generation ('' the live one). The gate, the position and what is in doubt: {log, offset, open, n, now (us), fence, reservations pending, oldest
-- of them (us, 0: none), fenced, duplicates, quarantined, overruled, the partition's clock (us), whether the server still runs
-- in which the gate was opened last}.
library.register_read('votes_state', function(keys, args)
  local base = keys[1]
  local views, gate = view(base, args[1]), load_gate(base)
  local log, offset = position(views)
  local oldest = call('ZRANGE', base .. ':due', 0, 0, 'WITHSCORES')
  local stats = call('HMGET', views .. ':stats', 'fenced', 'duplicates', 'quarantined', 'overruled')
  return pack({ log, offset, gate.open and 1 or 0, gate.n, microseconds(), tonumber(call('GET', views .. ':fence') or 0),
    call('ZCARD', base .. ':due'), tonumber(oldest[2] or 0), tonumber(stats[1] or 0), tonumber(stats[2] or 0),
    tonumber(stats[3] or 0), tonumber(stats[4] or 0), gate.clock, gate.same_run and 1 or 0 })
end)

-- By partition: -1 where the gate is not open for this very server, -2 where the partition's clock is ahead of the server's;
-- else when the oldest reservation that is pending was accepted (us, 0: none).
library.register_read_each('votes_doubts', function(base, memo)
  memo.run, memo.now = memo.run or run_id(), memo.now or microseconds()
  local gate = call('HMGET', base .. ':gate', 'state', 'run', 'clock')
  if gate[1] ~= 'open' or gate[2] ~= memo.run then return -1 end
  view(base) -- an error where the views are of another layout
  if tonumber(gate[3] or 0) > memo.now then return -2 end
  return tonumber(call('ZRANGE', base .. ':due', 0, 0, 'WITHSCORES')[2] or 0)
end)

do
  -- adds the fields that the hash has, and their values
  local function add_fields(flat, key, fields)
    if #fields == 0 then return end
    local values, at = call('HMGET', key, unpack(fields)), #flat
    for i = 1, #fields do
      if values[i] then
        flat[at + 1], flat[at + 2] = fields[i], values[i]
        at = at + 2
      end
    end
  end

  local FIRST_INDEXES = {}
  for i = 1, FIRST_ROWS do FIRST_INDEXES[i] = i end

  -- the contest's own row and the first of its participants, with their ratings
  local function add_first_rows(rows, ratings, views, contest, count)
    if count <= FIRST_ROWS then
      return call('HGETALL', views .. ':counts:' .. contest), call('HGETALL', views .. ':ratings:' .. contest)
    end
    local names = { '' }
    local found = call('HMGET', views .. ':names:' .. contest, unpack(FIRST_INDEXES))
    for i = 1, #found do names[#names + 1] = found[i] or nil end
    add_fields(rows, views .. ':counts:' .. contest, names)
    add_fields(ratings, views .. ':ratings:' .. contest, names)
    return rows, ratings
  end

  -- Changes after the change of that number, so many at most: participants; fields of external figures and of
  -- releases; the number of the last of these changes, and of the last there is.
  local function changes_after(key, after, at_most)
    local last = tonumber(call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2] or 0)
    local members, participants, fields = {}, {}, {}
    if after < last then members = call('ZRANGEBYSCORE', key, '(' .. after, '+inf', 'LIMIT', 0, at_most) end
    for i = 1, #members do
      if string.byte(members[i]) == 0 then
        participants[#participants + 1] = string.sub(members[i], 2)
      else
        fields[#fields + 1] = members[i]
      end
    end
    local upto = #members == at_most and tonumber(call('ZSCORE', key, members[at_most])) or last
    return participants, fields, upto, last
  end

  -- ARGV: contest, offset of the last change that the caller holds (-1: none), swaps as of then, generation ('' the live
  -- one), number of the change up to which it holds all that is numbered (0: nothing), the view in which that was, how many
  -- changes it reads. {log, offset, last change, swaps, rows, ratings, sources, fields of figures, their values (false of a
  -- source's release), number of the change after which these changed (0 if the view is another now), of the last of them,
  -- of the last there is, the view}: all as they are stored, rows, ratings and sources each after its name; 0 instead
  -- of the rows when nothing changed since. Until the last two numbers are equal, there is only what is numbered. What changes
  -- meanwhile comes again: after the last page, all is as of the position of that.
  library.register_read('votes_counts', function(keys, args)
    local views, contest, swaps = view(keys[1], args[4]), args[1], generations.swaps(keys[1])
    local log, offset = position(views)
    local top = top_of(views, contest)
    local changed = top[ROW_OFFSET] or UNLIMITED
    if changed == tonumber(args[2]) and swaps == tonumber(args[3]) then
      return pack({ log, offset, changed, swaps, 0, {}, {}, {}, {}, 0, 0, 0, '' })
    end
    local key, after, at_most, lineage = views .. ':changes:' .. contest, tonumber(args[5]), tonumber(args[7]), ''
    local participants, fields, upto, last = changes_after(key, after, at_most)
    if last > 0 then
      lineage = generations.lineage(keys[1])
      if after > last or (after > 0 and args[6] ~= lineage) then
        after = 0
        participants, fields, upto = changes_after(key, after, at_most)
      end
    else
      after = 0
    end
    local rows, ratings, sources, figures = {}, {}, {}, {}
    add_fields(rows, views .. ':counts:' .. contest, participants)
    add_fields(ratings, views .. ':ratings:' .. contest, participants)
    if #fields > 0 then figures = call('HMGET', views .. ':figures:' .. contest, unpack(fields)) end
    if upto == last then
      rows, ratings = add_first_rows(rows, ratings, views, contest, top[1] or 0)
      sources = call('HGETALL', views .. ':sources:' .. contest)
    end
    return pack({ log, offset, changed, swaps, rows, ratings, sources, fields, figures, after, upto, last, lineage })
  end)
end

-- By partition, with packed arguments: contest, offset of the last change that the caller holds, swaps as of then, generation
-- (as of votes_counts). 1 where the counts are others, else 0.
library.register_read_each('votes_changed', function(base, _, packed)
  local contest, offset, swaps, generation = unpack(unpack_one(packed))
  local views, swapped = view(base, generation)
  local changed = top_of(views, contest)[ROW_OFFSET] or UNLIMITED
  return (changed ~= offset or (swapped or generations.swaps(base)) ~= swaps) and 1 or 0
end, true)

-- ARGV: contest, external source, ids (some thousands at most). {closing in force for it, ids that it reported, those of the given that
-- it did not}.
library.register_read('votes_source', function(keys, args)
  local views, contest, source = view(keys[1]), args[1], args[2]
  local s, fields, unknown = read_one(views .. ':sources:' .. contest, source), {}, 0
  if not s then return pack({ 0, 0, #args - 2 }) end
  for i = 3, #args do fields[i - 2] = source .. '\0' .. args[i] end
  local found = #fields > 0 and call('HMGET', views .. ':figures:' .. contest, unpack(fields)) or {}
  for i = 1, #found do unknown = unknown + (found[i] and 0 or 1) end
  return pack({ closing_of(s, top_of(views, contest)[ROW_REOPENED] or 0), s[S_IDS], unknown })
end)

do
  local SHARES_READ = 16  -- shares of a voter, by one call

  -- a voter's sums, some pages of them in shares, and the number of the share to go on from (UNLIMITED: these are all)
  local function sums_from(c, views, contest, standing, number)
    local sums, from = {}, number
    if number == 0 then
      for i = 1, #standing.sums do sums[i] = standing.sums[i] end
    end
    if not shares.are_used(standing) then return sums, UNLIMITED end
    local last = shares.number(top_of(views, contest)[1] or 1)
    while number <= last and number < from + SHARES_READ do
      local share = shares.unpack(c:read_share(standing.voter, number))
      shares.merge_periods(standing, share)
      for i = 1, #share.sums do sums[#sums + 1] = share.sums[i] end
      number = number + 1
    end
    return sums, number <= last and number or UNLIMITED
  end

  -- a voter's sums as {participant ('' contest), source, epoch, used}
  local function rows_of(views, contest, sums)
    local names, rows = names_by_index(views, contest), {}
    for i = 1, #sums, 4 do
      local rest = math.floor(sums[i] / 2)
      rows[#rows + 1] = { names[rest % 16777216], sums[i] % 2, math.floor(rest / 16777216), sums[i + 1] }
    end
    return rows
  end

  -- ARGV: contest, voter, number of the share to begin with (0 first). {now (us), epoch, latest free vote (us, 0: none), rows,
  -- configuration version in force (-1: none), n, 1 where the gate is open}, counted and pending, {share to go on from (-1: none),
  -- hash of all that this depends on ('' of a single page)}; rows are what the voter has used: {participant ('' contest),
  -- source, epoch, used}. A replacement that is pending uses nothing.
  library.register_read('votes_allowance', function(keys, args)
    local base = keys[1]
    local views, contest, voter, from = view(base), args[1], args[2], tonumber(args[3])
    local c, gate = contest_view(base, views, contest, { voter }), load_gate(base)
    local standing = c:standing(voter)
    local field = pending_field(contest, voter)
    local sums, following = sums_from(c, views, contest, standing, from)
    local rows, mark = rows_of(views, contest, sums), ''
    if from > 0 or following ~= UNLIMITED then
      mark = redis.sha1hex(generations.lineage(base) .. (call('HGET', views .. ':voters:' .. contest, voter) or '')
        .. (call('HGET', base .. ':pending', field) or ''))
    end
    if from > 0 then return pack({ 0, 0, 0, rows, 0, 0, 0, following, mark }) end
    local list = open_pending(base, { field }):list(field)
    local epoch, latest = standing.epoch, standing.latest
    if latest == 0 then latest = latest_free(standing) end
    local taken = {}
    for i = 1, #list do
      local p = list[i]
      local source, weight = p[P_SOURCE], current_weight(c, standing, p, taken)
      if source == FREE then epoch, latest = math.max(epoch, p[P_EPOCH]), math.max(latest, p[P_AT]) end
      if weight > 0 then
        for k = 1, #p[P_CHOICES] do rows[#rows + 1] = { p[P_CHOICES][k][1], source, p[P_EPOCH], p[P_CHOICES][k][2] } end
        rows[#rows + 1] = { '', source, p[P_EPOCH], weight }
      end
    end
    return pack({ next_moment(gate), epoch, latest, rows, c.in_force, gate.n, gate.open and 1 or 0, following, mark })
  end)
end

-- ARGV: contest, source, report id. The report as it is stored, or nil while it was not folded.
library.register_read('votes_report', function(keys, args)
  return call('HGET', view(keys[1]) .. ':reports:' .. args[1], args[2] .. '\0' .. args[3])
end)

-- By partition, with packed arguments: contest, cursor ('0' to begin), how many reservations of all partitions about. How its
-- closing stands there: {next cursor ('0' at the end), open, n, reservations pending for it among these, now (us), closing in
-- force, last one reopened, votes with changes that wait for a reopening, offset, source, closing in force for it, ...}. Nothing
-- where so many were read of the partitions before.
library.register_read_each('votes_closing', function(base, memo, packed)
  local contest, cursor, most = unpack(unpack_one(packed))
  memo.run, memo.left = memo.run or run_id(), memo.left or most
  if memo.left <= 0 then return false end
  local views, gate = view(base), load_gate(base, memo.run)
  local page = call('HSCAN', base .. ':pending', cursor, 'COUNT', memo.left, 'NOVALUES')
  memo.left = memo.left - #page[2]
  local prefix, pending = contest .. '\0', 0
  for i = 1, #page[2] do
    if string.sub(page[2][i], 1, #prefix) == prefix then pending = pending + 1 end
  end
  local top = top_of(views, contest)
  local reply = { page[1], gate.open and 1 or 0, gate.n, pending, next_moment(gate), top[ROW_CLOSED] or 0,
    top[ROW_REOPENED] or 0, call('ZCARD', views .. ':queue:' .. contest), select(2, position(views)) }
  local sources = call('HGETALL', views .. ':sources:' .. contest)
  for i = 1, #sources, 2 do
    reply[#reply + 1], reply[#reply + 2] = sources[i], closing_of(unpack_one(sources[i + 1]), top[ROW_REOPENED] or 0)
  end
  return pack(reply)
end, true)

-- ARGV: contest after which to begin ('' first). {the last of these contests ('' at the end), their vote ids by status
-- as sums}: of contests in the order of their names.
library.register_read('votes_ids', function(keys, args)
  local views, sums = view(keys[1]), {}
  local page = call('ZRANGE', views .. ':contests', '(' .. args[1], '+', 'BYLEX', 'LIMIT', 0, 200)
  for k = ROW_IDS, ROW_CLOSED - 1 do sums[k - ROW_IDS + 1] = 0 end
  for i = 1, #page do
    local cells = top_of(views, page[i])
    for k = 1, #sums do sums[k] = sums[k] + (cells[ROW_IDS + k - 1] or 0) end
  end
  return pack({ #page == 200 and page[200] or '', sums })
end)
