-- Freshness of views. An emptied view, or one restored from an older state, would return records as absent or as they
-- were. So each reply includes whether the view is fresh: in the server's current run and role it has reached an end of
-- the log that was read during this run. All answers of earlier runs lie before that end. Within one run a view only
-- moves forward, unless it is emptied; then it is no longer fresh.
--   base:generations  hash, fresh: the run that the live view is fresh under

-- The reads of one library's live views, and the two functions by which a projector makes a view fresh.
local function reads_of(prefix, generations)
  local function is_fresh(base, run) return call('HGET', base .. ':generations', 'fresh') == run end

  -- {1, log id, offset, result of `callback(base of the live view, arguments, KEYS[1])`}; {0, log id, offset} if the
  -- view is not fresh
  local function read(name, callback)
    library.register_read(prefix .. '_' .. name, function(keys, args)
      local base = keys[1]
      local views = generations.view(base)
      local log, offset = position(views)
      if log == '' or not is_fresh(base, run_id()) then return { 0, log, offset } end
      return { 1, log, offset, callback(views, args, base) }
    end)
  end

  -- ARGV: a command that reads, a key within the view, arguments. The command's reply.
  read('view', function(views, args) return call(args[1], views .. ':' .. args[2], unpack(args, 3)) end)

  -- {run of the server, 1 where the view is fresh under it}
  library.register_read(prefix .. '_freshness', function(keys)
    local run = run_id()
    return { run, position(generations.view(keys[1])) ~= '' and is_fresh(keys[1], run) and 1 or 0 }
  end)

  -- By partition: 1 where the view is fresh, else 0.
  library.register_read_each(prefix .. '_fresh', function(base, memo)
    memo.run = memo.run or run_id()
    return position(generations.view(base)) ~= '' and is_fresh(base, memo.run) and 1 or 0
  end)

  -- ARGV: run, log id, end of that log, read after the run. 1 if the view is fresh now, 0 if it has not reached the end,
  -- or the server was restarted.
  library.register(prefix .. '_declare_fresh', function(keys, args)
    local base = keys[1]
    local log, offset = position(generations.view(base))
    if run_id() ~= args[1] or log == '' or log ~= args[2] or tonumber(offset) < tonumber(args[3]) then return 0 end
    call('HSET', base .. ':generations', 'fresh', args[1])
    return 1
  end)

  return read
end
