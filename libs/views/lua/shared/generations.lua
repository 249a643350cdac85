-- Generations: one partition's view, folded more than once. Joined to every library of views.
--   base:generations   hash  live (number of the generation that is read; 1 while absent), swaps (times that what is
--                            read was exchanged), last (highest number ever given), and by number, of each that was
--                            opened, packed {state, scope, schema, read, kept since (s), 1 where it is kept until
--                            it is dropped}; fresh (reads.lua)
--   base:g<number>:... what a generation holds; its position is base:g<number>:position
-- One of a narrower scope never is the live one: what it holds changes places with what the live one held, and `read`
-- says whether it has (1) or not (0).
-- A generation is being folded by a replay (BUILDING), or together with the live one, in the same call (FOLLOWING, and
-- KEPT once it was swapped), or holds what one was until some time, to be looked at only (SIDE), or cannot be folded
-- further (BROKEN), as any of another layout than this code's.

local BUILDING, FOLLOWING, KEPT, SIDE, BROKEN = 'building', 'following', 'kept', 'side', 'broken'

-- how the parts of a key are walked through, and looked up
local SCANS = {
  hash = { walk = 'HSCAN', look = 'HGET', width = 2 },
  zset = { walk = 'ZSCAN', look = 'ZSCORE', width = 2 },
  set = { walk = 'SSCAN', look = 'SISMEMBER', width = 1 },
}

-- while a library is being loaded, none of these is there yet
local function call(...) return redis.call(...) end
local function pack(value) return cmsgpack.pack(value) end
local function unpack_one(packed) return (cmsgpack.unpack(packed)) end

local function whole(number) return string.format('%.0f', number) end

-- This very server, in this very role: a primary that failed over and comes back has its old run id, but another
-- replication id; it may have missed all that its successor did, and must not take its gate for open.
-- The run id is that of the process, in which the library was loaded: asked for once, it saves most of what INFO costs.
local process_run

local function run_id()
  process_run = process_run or string.match(call('INFO', 'server'), 'run_id:(%w+)')
  return process_run .. '.' .. string.match(call('INFO', 'replication'), 'master_replid:(%w+)')
end

-- The generations of one library's views. prefix: of its functions' names; schema: number of the layout that its code
-- reads and writes; fold(views, items, from, scope, base) folds the items from offset `from` on into the generation at
-- `views`, only what is of `scope` where that is not '' (base: for the live one, else nil); exchange(a, b, scope) makes
-- what is of `scope` change places. accord(one, other) says whether those who wrote by one generation's views may go on by
-- the other's, and taken_over(base, views) is called once these are the live ones.
local function generations_of(prefix, schema, fold, exchange, accord, taken_over)
  local own = {}

  local function key(base) return base .. ':generations' end

  local function at(base, number) return base .. ':g' .. whole(number) end

  local function rows(base)
    local flat, all = call('HGETALL', key(base)), { live = 1, swaps = 0, last = 1, opened = {} }
    for i = 1, #flat, 2 do
      local number = tonumber(flat[i])
      if number then
        local row = unpack_one(flat[i + 1])
        -- this code can fold no other layout than its own
        local state = row[3] == schema and row[1] or BROKEN
        all.opened[number] = { state = state, scope = row[2], schema = row[3], read = row[4], stored = row[1],
          since = row[5] or 0, held = row[6] or 0 }
      else
        all[flat[i]] = tonumber(flat[i + 1])
      end
    end
    return all
  end

  local function keep(base, number, row)
    call('HSET', key(base), whole(number),
      pack({ row.state, row.scope, row.schema, row.read, row.since or 0, row.held or 0 }))
  end

  -- other generations that a swap of `number` gives up: one former view is kept, to be swapped back. The second result
  -- says that one of them is to be kept until it is dropped.
  local function given_up(all, number)
    local found, held = {}, false
    for other, row in pairs(all.opened) do
      if other ~= number and row.stored == KEPT then
        found[#found + 1] = whole(other)
        held = held or row.held == 1
      end
    end
    return found, held
  end

  local function seconds() return tonumber(call('TIME')[1]) end

  local function position(views)
    local p = call('HMGET', views .. ':position', 'log', 'offset')
    return p[1] or '', tonumber(p[2] or 0)
  end

  -- where the views of a generation lie: of the live one, unless another is named
  function own.view(base, number)
    if number and number ~= '' then return base .. ':g' .. number end
    local live = call('HMGET', key(base), 'live', 'schema')
    if live[2] and tonumber(live[2]) ~= schema then
      error('the views of ' .. prefix .. ' were folded by schema ' .. live[2] .. ', this code reads ' .. schema
        .. ': `tally replay` rebuilds them')
    end
    return base .. ':g' .. (live[1] or 1)
  end

  function own.swaps(base) return tonumber(call('HGET', key(base), 'swaps') or 0) end

  -- whether a batch is to be folded here; else the reply: folded before, or where the view stands instead
  local function compare(views, args)
    local log, offset = position(views)
    if log ~= '' and log == args[1] and offset >= tonumber(args[3]) then return false, { 1 } end
    if offset ~= tonumber(args[2]) or (log ~= '' and log ~= args[1]) then return false, { 0, log, whole(offset) } end
    if log == '' then call('HSET', views .. ':position', 'log', args[1]) end
    return true
  end

  local function finish(views, args) call('HSET', views .. ':position', 'log', args[1], 'offset', args[3]) end

  -- Folds a batch into a generation that follows, or as much of it as that one lacks: it may be ahead. What it cannot
  -- do must not hold back the live one.
  local function follow(base, number, row, args, items)
    local views = at(base, number)
    local log, offset = position(views)
    if log == args[1] and offset >= tonumber(args[3]) then return end
    local done = log == args[1] and offset >= tonumber(args[2]) and pcall(fold, views, items, offset, row.scope)
    if done then
      finish(views, args)
    else
      row.state = BROKEN
      keep(base, number, row)
    end
  end

  -- ARGV: log id, offset expected, offset after the batch, packed list of items. Into the live generation, and those
  -- that follow it. {1} folded or already in; {0, log id, offset} when the view stands elsewhere.
  redis.register_function(prefix .. '_apply', function(keys, args)
    local base = keys[1]
    local views = own.view(base)
    local needed, reply = compare(views, args)
    if not needed then return reply end
    local items = unpack_one(args[4])
    if args[2] == '0' then
      call('HSET', key(base), 'schema', schema)
      call('HDEL', key(base), 'fresh')
    end
    fold(views, items, tonumber(args[2]), '', base)
    finish(views, args)
    for number, row in pairs(rows(base).opened) do
      if row.state == FOLLOWING or row.state == KEPT then follow(base, number, row, args, items) end
    end
    return { 1 }
  end)

  -- As `apply`, into generation ARGV[5] alone, which follows from the moment on that it has come as far as the live
  -- one. {1, state}, {0, log id, offset, state}, {-1} where there is none of that number.
  redis.register_function(prefix .. '_fold', function(keys, args)
    local base, number = keys[1], tonumber(args[5])
    local all = rows(base)
    local row = all.opened[number]
    if not row or row.state == BROKEN then return { -1 } end
    local views = at(base, number)
    local needed, reply = compare(views, args)
    if needed then
      fold(views, unpack_one(args[4]), tonumber(args[2]), row.scope)
      finish(views, args)
      reply = { 1 }
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

  -- ARGV: number, scope, 1 for a generation that is only looked at. Opens it, empty; 1, also where it is open, 0 where
  -- the number was given to another.
  redis.register_function(prefix .. '_open', function(keys, args)
    local base, number, state = keys[1], tonumber(args[1]), args[3] == '1' and SIDE or BUILDING
    local all = rows(base)
    local row = all.opened[number]
    if row then return row.scope == args[2] and (row.state == SIDE) == (state == SIDE) and 1 or 0 end
    if number <= math.max(all.last, all.live) then return 0 end
    call('HSET', key(base), 'last', args[1])
    keep(base, number, { state = state, scope = args[2], schema = schema, read = 0 })
    return 1
  end)

  -- ARGV: number, 1 (or 0, of a narrower scope: back again), 1 to swap also without `accord`. From this call on what that generation holds is read;
  -- what was read until now follows it, to be swapped back. {1} done, {2} it was so; {0, reason} where it does not
  -- follow, or stands elsewhere: behind a live one of another layout, which goes no further, it need not wait. What was
  -- kept before is given up.
  redis.register_function(prefix .. '_swap', function(keys, args)
    local base, number, wanted = keys[1], tonumber(args[1]), tonumber(args[2])
    local all = rows(base)
    if number == all.live then return { 2 } end
    local row = all.opened[number]
    if not row then return { 0, 'gone' } end
    if row.scope ~= '' and row.read == wanted then return { 2 } end
    if row.state ~= FOLLOWING and row.state ~= KEPT then return { 0, row.state } end
    local views, live = at(base, number), at(base, all.live)
    local log, offset = position(views)
    local live_log, live_offset = position(live)
    local stuck = all.schema and all.schema ~= schema
    if stuck and row.scope ~= '' then return { 0, 'of another layout than the live one' } end
    if log ~= live_log or offset < live_offset or (offset > live_offset and not stuck) then return { 0, 'moving' } end
    if accord and not stuck and args[3] ~= '1' and not accord(views, live) then return { 0, 'fences differ' } end
    local others, held = given_up(all, number)
    if held then return { 0, 'another is kept' } end
    for i = 1, #others do call('HDEL', key(base), others[i]) end
    if row.scope ~= '' then
      exchange(views, live, row.scope)
      row.state, row.read, row.since = KEPT, wanted, seconds()
      keep(base, number, row)
    else
      call('HDEL', key(base), whole(number))
      keep(base, all.live, { state = KEPT, scope = '', schema = all.schema or schema, read = 0, since = seconds() })
      call('HSET', key(base), 'live', whole(number), 'schema', schema)
      if taken_over then taken_over(base, views) end
    end
    call('HINCRBY', key(base), 'swaps', 1)
    return { 1 }
  end)

  -- ARGV: number. It is folded no further, and its number never given again; its keys are the caller's to delete.
  -- 0 for the live one.
  redis.register_function(prefix .. '_drop', function(keys, args)
    local all = rows(keys[1])
    if tonumber(args[1]) == all.live then return 0 end
    call('HDEL', key(keys[1]), args[1])
    return 1
  end)

  -- ARGV: number, 1 to keep it until it is dropped, 0 not to (else as before). The time that it is kept for begins anew.
  -- 0 where none of that number is kept.
  redis.register_function(prefix .. '_hold', function(keys, args)
    local base, number = keys[1], tonumber(args[1])
    local row = rows(base).opened[number]
    if not row or row.stored ~= KEPT then return 0 end
    row.state, row.since, row.held = KEPT, seconds(), tonumber(args[2]) or row.held
    keep(base, number, row)
    return 1
  end)

  -- ARGV: how long (s). Drops what has been kept for longer; its numbers. In the call that looks at the time: one that
  -- is swapped back, or held, just before is not dropped.
  redis.register_function(prefix .. '_expire', function(keys, args)
    local base, now, dropped = keys[1], seconds(), {}
    for number, row in pairs(rows(base).opened) do
      if row.stored == KEPT and row.held == 0 then
        if row.since == 0 then
          row.state, row.since = KEPT, now
          keep(base, number, row)
        elseif now - row.since >= tonumber(args[1]) then
          call('HDEL', key(base), whole(number))
          dropped[#dropped + 1] = number
        end
      end
    end
    return dropped
  end)

  -- ARGV: number, name of a key within a generation, cursor ('0' to begin), and which to walk through: 'live', or 'other'
  -- for what the live one lacks. {next cursor ('0' at the end), {field, value of the live one, of the other, ...}}: what
  -- differs, '' where it is missing; {'moving'} while the two stand elsewhere.
  redis.register_function({ function_name = prefix .. '_compare', flags = { 'no-writes' }, callback = function(keys, args)
    local base, name, of_live = keys[1], ':' .. args[2], args[4] == 'live'
    local live, other = at(base, rows(base).live), at(base, tonumber(args[1]))
    local log, offset = position(live)
    local other_log, other_offset = position(other)
    if log ~= other_log or offset ~= other_offset then return pack({ 'moving' }) end
    local walked, looked = (of_live and live or other) .. name, (of_live and other or live) .. name
    local scan = SCANS[call('TYPE', walked).ok]
    if not scan then return pack({ '0', {} }) end
    local page, found = call(scan.walk, walked, args[3], 'COUNT', 500), {}
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
  end })

  -- {live, swaps, last, schema of the code, number, state, scope, schema, read, kept since (s, 0: not), 1 where it is kept
  -- until it is dropped, log id, offset, ...}, the live one first
  redis.register_function({ function_name = prefix .. '_generations', flags = { 'no-writes' }, callback = function(keys)
    local base = keys[1]
    local all = rows(base)
    local log, offset = position(at(base, all.live))
    local reply = { all.live, all.swaps, all.last, schema, all.live, 'live', '', all.schema or schema, 1,
      0, 0, log, offset }
    for number, row in pairs(all.opened) do
      log, offset = position(at(base, number))
      local values = { number, row.state, row.scope, row.schema, row.read, row.since, row.held, log, offset }
      for i = 1, #values do reply[#reply + 1] = values[i] end
    end
    return pack(reply)
  end })

  return own
end
