-- Generations: copies of one partition's view. Prepended to every library of views.
--   base:generations   hash  live (number of the generation that is read; 1 while absent), swaps (number of swaps so
--                            far), last (highest number ever assigned), and by number, of each opened generation,
--                            packed {state, schema, kept or lost since (s), first record that the log lost, 1 where
--                            the log tells of the loss}; fresh
--                            (reads.lua); begun (us: when the live one was first folded from the beginning of the log);
--                            losses: how often the live one began again, since the log had lost records
--   base:g<number>:... the keys of a generation; among them position, and calls: the number of those that wrote computed values
--   base:g<number>:position  hash  log, offset, time (ms: of the record before it, or of one folded earlier, if that is later)
-- States: BUILDING (a replay folds it), FOLLOWING (folded in the same call as the live one), KEPT (the same, after it was
-- swapped out: at most one), BROKEN (cannot be folded further, as any whose layout is not this code's), LOST (was live, and
-- has records that the log lost: it is read to name them).

local FOLD_SECONDS = 0.001  -- of the processor's time, after which a fold ends and writes, which takes about as long
local BUILDING, FOLLOWING, KEPT, BROKEN = 'building', 'following', 'kept', 'broken'

-- commands that iterate over a key's parts, and that read one of them
local SCANS = {
  hash = { walk = 'HSCAN', look = 'HGET', width = 2 },
  zset = { walk = 'ZSCAN', look = 'ZSCORE', width = 2 },
  set = { walk = 'SSCAN', look = 'SISMEMBER', width = 1 },
}

-- wrapped in functions, since these are not available while a library is loaded
local function call(...) return redis.call(...) end
local function pack(value) return cmsgpack.pack(value) end
local function unpack_one(packed) return (cmsgpack.unpack(packed)) end
local function unpack_members(packed, count, at) return cmsgpack.unpack_limit(packed, count, at) end

-- the unpacked value of a hash's field, or nil
local function read_one(key, field)
  local packed = call('HGET', key, field)
  return packed and unpack_one(packed) or nil
end

local function list_of(_, ...) return { ... } end

-- The number of members of a packed list (fixarray or array 16) that begins at an index, and the length of all before them.
local function list_head(packed, at)
  local head, high, low = string.byte(packed, at, at + 2)
  if head < 0xdc then return head - 0x90, at end
  return high * 256 + low, at + 2
end

-- A list in a table of its size; `unpack_one` would enlarge the table again and again as members come.
local function unpack_list(packed) return list_of(unpack_members(packed, list_head(packed, 1))) end

local function whole(number) return string.format('%.0f', number) end

local function microseconds()
  local time = call('TIME')
  return time[1] * 1000000 + time[2]
end

-- the position of a generation: log id ('' before the first fold), and the next offset
local function position(views)
  local p = call('HMGET', views .. ':position', 'log', 'offset')
  return p[1] or '', tonumber(p[2] or 0)
end

-- Identifies this server in its current role: a primary that returns after a failover has its old run id, but another
-- replication id. It may have missed its successor's writes, and must not treat its gate as open.
-- The run id is constant in the process that loaded the library: reading it once saves most of the cost of INFO.
local process_run

local function run_id()
  process_run = process_run or string.match(call('INFO', 'server'), 'run_id:(%w+)')
  return process_run .. '.' .. string.match(call('INFO', 'replication'), 'master_replid:(%w+)')
end

-- What a process computed for one generation (computed_fold.py): each {command, key within it, argument, ...}.
local function write_all(views, writes)
  call('INCRBY', views .. ':calls', 1)
  for i = 1, #writes do call(writes[i][1], views .. ':' .. writes[i][2], unpack(writes[i], 3)) end
end

-- The generations of one library's views. prefix: of its functions' names; schema: version of the layout that its code
-- reads and writes; fold(views, items, range, base) folds the items from offset `range.from` to before `range.till`
-- into the generation at `views` (base: for the live one, else nil). It may end early, after `range.seconds` of the
-- processor's time, and then sets `range.till`; it sets `range.time` to that of the last record (ms). With `write_all` the items are of one generation: a process writes into
-- those that follow before it writes into the live one. accord(one, other) returns whether writers that used one
-- generation's views may continue with the other's; taken_over(base, views, relaid) is called after `views` became the
-- live ones, with `relaid` if those before had another layout. is_unfinished(views) returns whether something of a
-- fold is still to be written at the same position. unpack_items(packed) returns the list of items. From accord on
-- they are optional, in a table.
local function generations_of(prefix, schema, fold, optional)
  local LOST, MOST_LOST = 'lost', 3  -- so many of a partition: each takes as much memory as the live one
  local own, accord, taken_over = {}, optional.accord, optional.taken_over
  local unfinished = optional.is_unfinished
  local unpack_items, is_computed = optional.unpack_items or unpack_one, fold == write_all

  local function key(base) return base .. ':generations' end

  local function at(base, number) return base .. ':g' .. whole(number) end

  local function rows(base)
    local flat, all = call('HGETALL', key(base)), { live = 1, swaps = 0, last = 1, opened = {} }
    for i = 1, #flat, 2 do
      local number = tonumber(flat[i])
      if number then
        local row = unpack_one(flat[i + 1])
        -- this code can fold only its own layout
        local state = row[2] == schema and row[1] or BROKEN
        all.opened[number] = { state = state, schema = row[2], stored = row[1], since = row[3], first = row[4],
          told = row[5] }
      else
        all[flat[i]] = tonumber(flat[i + 1])
      end
    end
    return all
  end

  local function keep(base, number, row)
    local packed = pack({ row.state, row.schema, row.since or 0, row.first or 0, row.told or 0 })
    call('HSET', key(base), whole(number), packed)
  end

  local function seconds() return tonumber(call('TIME')[1]) end

  local function live_view(base, live, of_schema)
    if of_schema and tonumber(of_schema) ~= schema then
      error({ err = 'OTHERLAYOUT the views of ' .. prefix .. ' have layout ' .. of_schema .. ', this version has ' .. schema
        .. ': `tally replay run --outdated --execute` of the newer version rebuilds them, the older one serves until then' })
    end
    return base .. ':g' .. live
  end

  -- Returns the key prefix of a generation's views. By default that is the live one, then also the numbers of swaps
  -- and losses.
  function own.view(base, number)
    if number and number ~= '' then return base .. ':g' .. number end
    local live = call('HMGET', key(base), 'live', 'schema', 'swaps', 'losses')
    return live_view(base, live[1] or 1, live[2]), tonumber(live[3] or 0), tonumber(live[4] or 0)
  end

  function own.swaps(base) return tonumber(call('HGET', key(base), 'swaps') or 0) end

  -- By partition: {log id ('' before the first fold), offset, swaps, losses} of the live generation.
  library.register_read_each(prefix .. '_positions', function(base)
    local views, swaps, losses = own.view(base)
    local log, offset = position(views)
    return { log, offset, swaps, losses }
  end)

  local loaded  -- about when the server loaded this library

  -- ARGV: kind of the changes (changes.lua), what an earlier call returned first ('' at first). {cursor for the next call,
  -- bases of the partitions that changed since the earlier one}; without the second if that is not known.
  library.register_read(prefix .. '_noted_changes', function(_, args)
    if not loaded then
      local time = call('TIME')
      loaded = time[1] .. '.' .. time[2]
    end
    return { library.changes_since(args[1], args[2], run_id() .. ' ' .. loaded) }
  end)

  -- Identifies the live generation in this run of the server: while it is the same, the view only moved forward.
  function own.lineage(base)
    local found = call('HMGET', key(base), 'begun', 'swaps')
    return run_id() .. ' ' .. (found[1] or '') .. ' ' .. (found[2] or '0')
  end

  -- true if a batch has to be folded here; else the reply: folded before, or the view's other position
  local function compare(views, args)
    local log, offset = position(views)
    local is_rest = is_computed and args[2] == args[3] and offset == tonumber(args[3])
    if log ~= '' and log == args[1] and offset >= tonumber(args[3]) and not is_rest then return false, { 1, 'before' } end
    if offset ~= tonumber(args[2]) or (log ~= '' and log ~= args[1]) then return false, { 0, log, whole(offset) } end
    if is_computed and (call('GET', views .. ':calls') or '0') ~= args[7] then return false, { 3 } end
    if log == '' then call('HSET', views .. ':position', 'log', args[1]) end
    return true
  end

  local function finish(views, args, range)
    if range.time then
      local time = math.max(range.time, tonumber(call('HGET', views .. ':position', 'time') or 0))
      call('HSET', views .. ':position', 'log', args[1], 'offset', whole(range.till), 'time', whole(time))
    else
      call('HSET', views .. ':position', 'log', args[1], 'offset', whole(range.till))
    end
  end

  -- Folds the part of a batch that a following generation lacks: it may be ahead. Its errors must not stop the live one.
  local function follow(base, number, row, args, items, range)
    local views = at(base, number)
    local log, offset = position(views)
    if log == args[1] and offset >= range.till then return end
    local its = { from = offset, till = range.till }
    local done = log == args[1] and offset >= range.from and pcall(fold, views, items, its)
    if done then
      finish(views, args, range)
    else
      row.state = BROKEN
      keep(base, number, row)
    end
  end

  -- Whether a process may write into the live one now: into those that follow it has. One that lacks earlier records breaks.
  local function are_written(base, following, args)
    local ready = true
    for number, row in pairs(following) do
      local log, offset = position(at(base, number))
      local lacks = log ~= args[1] or offset < tonumber(args[args[6] == '1' and 3 or 2])
      if lacks then
        row.state = BROKEN
        keep(base, number, row)
      elseif offset < tonumber(args[3]) then
        ready = false
      end
    end
    return ready
  end

  local function reply_of(range, args)
    if range.till == tonumber(args[3]) then return { 1 } end
    return { 2, whole(range.till) }
  end

  -- ARGV: log id, offset expected, offset after the batch, packed list of items. Folds into the live generation and
  -- those that follow it. {1} folded, now or {1, 'before'}; {2, offset} folded up to there, since more would block Valkey for
  -- too long; {0, log id, offset} if the view is at another position. Of computed writes ARGV[5]: number of the live
  -- generation, '1' where those that could not be written break, calls that it has had; {3}: compute again, since it is
  -- another one or has had others, or one that follows has to be written first.
  library.register(prefix .. '_apply', function(keys, args)
    local base = keys[1]
    local all = rows(base)
    local views = live_view(base, whole(all.live), all.schema)
    local following, count = {}, 1
    for number, row in pairs(all.opened) do
      if row.state == FOLLOWING or row.state == KEPT then
        following[number], count = row, count + 1
      end
    end
    library.note_change('views', base)
    if is_computed and tonumber(args[5]) ~= all.live then return { 3 } end
    local needed, reply = compare(views, args)
    if not needed then return reply end
    if is_computed and not are_written(base, following, args) then return { 3 } end
    local items = unpack_items(args[4])
    if args[2] == '0' then
      call('HSET', key(base), 'schema', schema, 'begun', whole(microseconds()))
      call('HDEL', key(base), 'fresh')
    end
    local range = { from = tonumber(args[2]), till = tonumber(args[3]), seconds = FOLD_SECONDS / count }
    fold(views, items, range, base)
    finish(views, args, range)
    if not is_computed then
      for number, row in pairs(following) do follow(base, number, row, args, items, range) end
    end
    return reply_of(range, args)
  end)

  -- As `apply`, only into generation ARGV[5], which follows once it has reached the live one's position: the state is the
  -- last part of each reply. {-1} if none has that number.
  library.register(prefix .. '_fold', function(keys, args)
    local base, number = keys[1], tonumber(args[5])
    local all = rows(base)
    local row = all.opened[number]
    if not row or row.state == BROKEN or row.stored == LOST then return { -1 } end
    local views = at(base, number)
    local needed, reply = compare(views, args)
    if needed then
      local range = { from = tonumber(args[2]), till = tonumber(args[3]), seconds = FOLD_SECONDS }
      fold(views, unpack_items(args[4]), range)
      finish(views, args, range)
      reply = reply_of(range, args)
    end
    local log, offset = position(views)
    local live_log, live_offset = position(at(base, all.live))
    if row.state == BUILDING and (log == live_log or live_log == '') and offset >= live_offset then
      row.state = FOLLOWING
      keep(base, number, row)
    end
    reply[#reply + 1] = row.state
    return reply
  end)

  -- ARGV: number. Opens a generation, empty; 1, also if it is open, 0 if the number was assigned before.
  library.register(prefix .. '_open', function(keys, args)
    local base, number = keys[1], tonumber(args[1])
    local all = rows(base)
    if all.opened[number] then return all.opened[number].schema == schema and 1 or 0 end
    if number <= math.max(all.last, all.live) then return 0 end
    call('HSET', key(base), 'last', args[1])
    keep(base, number, { state = BUILDING, schema = schema })
    return 1
  end)

  -- ARGV: number, 1 to swap also without `accord`, the offset that it must be at ('' for any). From this call on readers get
  -- that generation; the former live one follows it, to be swapped back. {1} done, {2} done before; {0, reason} if it does
  -- not follow, is at another position, or the live one is in the middle of an event that takes several calls.
  -- A live one with another layout is folded by processes of another version alone: then the new one must have reached it,
  -- and may be ahead. From this call on only processes of this layout reach the views. Drops the generation that was kept.
  library.register(prefix .. '_swap', function(keys, args)
    local base, number = keys[1], tonumber(args[1])
    local all = rows(base)
    if number == all.live then return { 2 } end
    local row = all.opened[number]
    if not row then return { 0, 'gone' } end
    if row.state ~= FOLLOWING and row.state ~= KEPT then return { 0, row.state } end
    local views, live = at(base, number), at(base, all.live)
    local log, offset = position(views)
    local live_log, live_offset = position(live)
    local relaid = all.schema and all.schema ~= schema
    if args[3] ~= '' and offset ~= tonumber(args[3]) then return { 0, 'moving' } end
    if log ~= live_log or offset < live_offset or (offset > live_offset and not relaid) then return { 0, 'moving' } end
    if unfinished and offset == live_offset and unfinished(live) then return { 0, 'moving' } end
    if accord and not relaid and args[2] ~= '1' and not accord(views, live) then return { 0, 'fences differ' } end
    library.note_change('views', base)
    for other, its in pairs(all.opened) do
      if other == number or its.stored == KEPT then call('HDEL', key(base), whole(other)) end
    end
    keep(base, all.live, { state = KEPT, schema = all.schema or schema, since = seconds() })
    call('HSET', key(base), 'live', whole(number), 'schema', schema)
    if taken_over then taken_over(base, views, relaid) end
    call('HINCRBY', key(base), 'swaps', 1)
    return { 1 }
  end)

  -- {offset, time (ms)} of the last record that the live generation has folded, or {}: in its log that is no younger.
  library.register_read(prefix .. '_witness', function(keys)
    local found = call('HMGET', own.view(keys[1]) .. ':position', 'offset', 'time')
    return found[1] and found[2] and { whole(found[1] - 1), found[2] } or {}
  end)

  -- ARGV: log id and offset of the live generation, offset of the first record that the log lost. If the live one is still
  -- there, it becomes LOST, and an empty one takes its place, to be folded from the log's beginning; what followed it has
  -- folded the same records, and is dropped. 1 done, 0: it is elsewhere.
  library.register(prefix .. '_begin_again', function(keys, args)
    local base = keys[1]
    local all = rows(base)
    local log, offset = position(live_view(base, whole(all.live), all.schema))
    if log ~= args[1] or offset ~= tonumber(args[2]) then return 0 end
    library.note_change('views', base)
    local lost = {}
    for number, row in pairs(all.opened) do
      if row.stored == LOST then
        lost[#lost + 1] = number
        row.state, row.told = LOST, 0  -- the event that tells of it may be lost, too
        keep(base, number, row)
      else
        call('HDEL', key(base), whole(number))
      end
    end
    table.sort(lost)
    for i = 1, #lost - MOST_LOST + 1 do call('HDEL', key(base), whole(lost[i])) end
    keep(base, all.live, { state = LOST, schema = schema, since = seconds(), first = tonumber(args[3]) })
    local number = math.max(all.last, all.live) + 1
    call('HSET', key(base), 'live', whole(number), 'last', whole(number), 'schema', schema)
    call('HDEL', key(base), 'fresh')
    if taken_over then taken_over(base, at(base, number), true) end
    call('HINCRBY', key(base), 'swaps', 1)
    call('HINCRBY', key(base), 'losses', 1)
    return 1
  end)

  -- ARGV: number of a lost generation, of which the log tells by now.
  library.register(prefix .. '_told', function(keys, args)
    local number = tonumber(args[1])
    local row = rows(keys[1]).opened[number]
    if not row or row.stored ~= LOST then return 0 end
    row.state, row.told = LOST, 1
    keep(keys[1], number, row)
    return 1
  end)

  -- ARGV: number. Stops folding it and never reuses its number; `unlink` deletes its keys. 0 for the live one.
  library.register(prefix .. '_drop', function(keys, args)
    local all = rows(keys[1])
    if tonumber(args[1]) == all.live then return 0 end
    call('HDEL', key(keys[1]), args[1])
    return 1
  end)

  -- ARGV: number, name of a key within the generation. Deletes it, and returns how many were deleted: none of a generation
  -- that is live or opened by now, as after a loss of all data, when numbers begin again.
  library.register(prefix .. '_unlink', function(keys, args)
    local all, number = rows(keys[1]), tonumber(args[1])
    if number == all.live or all.opened[number] or number > all.last then return 0 end
    return call('UNLINK', at(keys[1], number) .. ':' .. args[2])
  end)

  -- ARGV: number. Restarts the time for which a generation is kept; 0 if none of that number is kept.
  library.register(prefix .. '_renew', function(keys, args)
    local base, number = keys[1], tonumber(args[1])
    local row = rows(base).opened[number]
    if not row or row.stored ~= KEPT then return 0 end
    row.state, row.since = KEPT, seconds()
    keep(base, number, row)
    return 1
  end)

  -- ARGV: duration (s). Drops generations kept for longer; returns their numbers. Reads the clock in the same call: one
  -- that was just swapped back is not dropped.
  library.register(prefix .. '_expire', function(keys, args)
    local base, now, dropped = keys[1], seconds(), {}
    for number, row in pairs(rows(base).opened) do
      if row.stored == KEPT and now - row.since >= tonumber(args[1]) then
        call('HDEL', key(base), whole(number))
        dropped[#dropped + 1] = number
      end
    end
    return dropped
  end)

  -- ARGV: number, name of a key within a generation, cursor ('0' to begin), and the side to iterate over: 'live', or
  -- 'other' for fields missing in the live one. {next cursor ('0' at the end), {field, live value, other value, ...}}
  -- of the differences, '' if missing; {'moving'} while the two are at different positions, or unfinished.
  library.register_read(prefix .. '_compare', function(keys, args)
    local base, name, of_live = keys[1], ':' .. args[2], args[4] == 'live'
    local live, other = at(base, rows(base).live), at(base, tonumber(args[1]))
    local log, offset = position(live)
    local other_log, other_offset = position(other)
    if log ~= other_log or offset ~= other_offset or (unfinished and (unfinished(live) or unfinished(other))) then
      return pack({ 'moving' })
    end
    local walked, looked = (of_live and live or other) .. name, (of_live and other or live) .. name
    local scan = SCANS[call('TYPE', walked).ok]
    if not scan then return pack({ '0', {} }) end
    local page, found = call(scan.walk, walked, args[3], 'COUNT', 100), {}
    for i = 1, #page[2], scan.width do
      local field, here = page[2][i], scan.width == 2 and page[2][i + 1] or '1'
      local there = call(scan.look, looked, field)
      there = there and there ~= 0 and tostring(there) or ''
      if of_live and here ~= there or there == '' then
        found[#found + 1], found[#found + 2] = field, of_live and here or ''
        found[#found + 1] = of_live and there or here
      end
    end
    return pack({ page[1], found })
  end)

  -- {live, swaps, last, schema of the code, number, state, schema, kept or lost since (s, 0: not), log id, offset, first
  -- record that the log lost (0: none), 1 where the log tells of it, ...}, the live one first
  library.register_read(prefix .. '_generations', function(keys)
    local base = keys[1]
    local all = rows(base)
    local log, offset = position(at(base, all.live))
    local reply = { all.live, all.swaps, all.last, schema, all.live, 'live', all.schema or schema, 0, log, offset, 0, 0 }
    for number, row in pairs(all.opened) do
      log, offset = position(at(base, number))
      local values = { number, row.state, row.schema, row.since, log, offset, row.first or 0, row.told or 0 }
      for i = 1, #values do reply[#reply + 1] = values[i] end
    end
    return pack(reply)
  end)

  return own
end
